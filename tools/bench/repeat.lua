-- Posts one JSON body again and again.
-- Arguments after "--": the file of the body and, where there is a client certificate, the PEM file of it and its key.

local ffi = require("ffi")

ffi.cdef[[
typedef void (*begin)(void *ssl, void *, void *, int, long, void *);
int CRYPTO_get_ex_new_index(int, long, void *, begin, void *, void *);
int SSL_use_certificate_file(void *ssl, const char *file, int type);
int SSL_use_PrivateKey_file(void *ssl, const char *file, int type);
]]

local INDEX_OF_SSL, PEM = 0, 1
local with_certificate

-- wrk has no option for a client certificate and shows its TLS context to nobody. But OpenSSL tells of every
-- connection that is made, for those who want to keep something of their own with it.
local function present(file)
   with_certificate = ffi.cast("begin", function(ssl)
      assert(ffi.C.SSL_use_certificate_file(ssl, file, PEM) == 1)
      assert(ffi.C.SSL_use_PrivateKey_file(ssl, file, PEM) == 1)
   end)
   ffi.C.CRYPTO_get_ex_new_index(INDEX_OF_SSL, 0, nil, with_certificate, nil, nil)
end

function init(args)
   if args[2] then
      present(args[2])
   end
   local body = assert(io.open(args[1], "rb"))
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = body:read("*a")
   body:close()
end

dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "tell.lua")
