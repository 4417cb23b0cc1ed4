-- Prints as JSON what came of a script's requests. For one wrk thread, which counts what is no answer in these.

unexpected = 0
status_seen = 0
exhausted = 0

local sender

function setup(thread)
   sender = thread
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
