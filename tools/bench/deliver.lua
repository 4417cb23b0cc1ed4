-- Sends the requests of a prepared file, each of them once, and prints as JSON what came of them.
-- Arguments after "--": the file, the bytes of a request, the number of requests in it. For one wrk thread.

local sender

function setup(thread)
   sender = thread
end

function init(args)
   file = assert(io.open(args[1], "rb"))
   file:setvbuf("full", 1048576)
   size = tonumber(args[2])
   left = tonumber(args[3])
   exhausted = 0
   unexpected = 0
   status_seen = 0
end

-- An empty request sends nothing: once the file is at its end the connections are silent, and the end tells it.
function request()
   if left == 0 then
      exhausted = 1
      return ""
   end
   left = left - 1
   return file:read(size)
end

function response(status)
   if status ~= 204 then
      unexpected = unexpected + 1
      status_seen = status
   end
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\n{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "longest": %d, '
         .. '"unexpected": %d, "status_seen": %d, "broken": %d, "exhausted": %d}\n',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
      sender:get("unexpected"), sender:get("status_seen"),
      errors.connect + errors.read + errors.write + errors.timeout, sender:get("exhausted")))
end
