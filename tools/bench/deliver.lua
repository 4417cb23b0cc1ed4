-- Sends the requests of a prepared file, each of them once.
-- Arguments after "--": the file, the bytes of a request, the number of requests in it.

function init(args)
   file = assert(io.open(args[1], "rb"))
   file:setvbuf("full", 1048576)
   size = tonumber(args[2])
   left = tonumber(args[3])
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

dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "tell.lua")
