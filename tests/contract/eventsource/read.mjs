// Reads server-sent events from standard input in pieces of as many bytes as the argument says, and prints what it read.
import { createParser } from "eventsource-parser";

const size = Number(process.argv[2]);
const read = { events: [], comments: [], retry: null, errors: [] };
const parser = createParser({
  onEvent: ({ id, event, data }) => read.events.push([id, event, data]),
  onComment: (comment) => read.comments.push(comment),
  onRetry: (retry) => { read.retry = retry; },
  onError: (error) => read.errors.push(error.message),
});
const decoder = new TextDecoder();
const pieces = [];
for await (const piece of process.stdin) pieces.push(piece);
const bytes = Buffer.concat(pieces);
for (let start = 0; start < bytes.length; start += size) {
  parser.feed(decoder.decode(bytes.subarray(start, start + size), { stream: true }));
}
process.stdout.write(JSON.stringify(read));
