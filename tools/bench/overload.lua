-- Sends the requests of a prepared file on a schedule, whatever becomes of the earlier ones while there are connections.
-- Arguments after "--": the file, the bytes of a request, the number of requests in it, the file for what came of each,
-- and the schedule: for each phase its seconds and how many requests are due in each of them.
-- A line for each answer: the moment that its request was sent, in microseconds, how many later the answer was there, its
-- status, and the seconds of Retry-After, 0 for none. The lines tell accepted from refused, which wrk's figures do not.

local ffi = require("ffi")

ffi.cdef[[
struct moment { long seconds; long nanoseconds; };
int clock_gettime(int clock, struct moment *moment);
]]

local MONOTONIC = 1
-- So far behind its schedule the load may come and still make up for it.
local LATEST = 20000

local moment = ffi.new("struct moment")
local sent = {}
local number = 0

local function now()
   ffi.C.clock_gettime(MONOTONIC, moment)
   return tonumber(moment.seconds) * 1000000 + tonumber(moment.nanoseconds) / 1000
end

function init(args)
   file = assert(io.open(args[1], "rb"))
   file:setvbuf("full", 1048576)
   size = tonumber(args[2])
   left = tonumber(args[3])
   told = assert(io.open(args[4], "w"))
   told:setvbuf("full", 1048576)
   phases = {}
   local ends = 0
   for place = 5, #args, 2 do
      ends = ends + tonumber(args[place]) * 1000000
      phases[#phases + 1] = { ends = ends, pause = 1000000 / tonumber(args[place + 1]) }
   end
end

-- wrk asks each connection that is free for how long it waits: each takes the next place in the schedule of all.
function delay()
   local at = now()
   began = began or at
   due = due or at
   while phases[2] and due - began > phases[1].ends do
      table.remove(phases, 1)
   end
   due = math.max(due + phases[1].pause, at - LATEST)
   return math.max(0, (due - at) / 1000)
end

-- The server echoes the trace id, by which an answer is known as that of its request.
function request()
   if left == 0 then
      exhausted = 1
      return ""
   end
   left = left - 1
   number = number + 1
   local id = string.format("%032x", number)
   local message = file:read(size)
   local line = message:find("\n", 1, true)
   sent[id] = now()
   return message:sub(1, line) .. "traceparent: 00-" .. id .. "-0000000000000001-00\r\n" .. message:sub(line + 1)
end

function response(status, headers)
   local id = headers["x-request-id"]
   local at = sent[id]
   sent[id] = nil
   told:write(string.format("%d %d %d %s\n", at, now() - at, status, headers["retry-after"] or "0"))
end
