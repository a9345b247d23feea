-- The peer of script/bench: a buy as nginx with Lua would take it, on the same Redis, with the same
-- script and keys as our front, over a pool of kept connections. It reads the same ticket, but
-- checks neither the buyer's token nor the ticket's tag, remembers nothing and journals nothing:
-- less than our front does for the same request.
-- settings (set in nginx.conf): host, port, sha, prefix (of all keys), epoch, place, format (what an
-- outbox entry begins with).
local redis = require "nginx.redis"
local base64 = require "ngx.base64"
local ffi = require "ffi"
local bit = require "bit"
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local byte, match, text = string.byte, string.match, string.format

local peer = {}
local digits = ffi.new("char[33]", "0123456789ABCDEFGHJKMNPQRSTVWXYZ")
local id_text = ffi.new("char[26]")

-- A little-endian number; ids have at most 53 bits.
local function number(bytes, at)
    local a, b, c, d, e, f, g = byte(bytes, at, at + 6)
    return a + 0x100 * (b + 0x100 * (c + 0x100 * (d + 0x100 * (e + 0x100 * (f + 0x100 * g)))))
end

-- 128 bits as 26 digits of five: the high half is at `high`, the low half behind it.
local function order_id(bytes, high)
    for i = 0, 25 do
        local from = 5 * i
        local at, shift = rshift(from, 3), band(from, 7)
        local here = at < 8 and high + 8 + at or high + at - 8
        local value = rshift(byte(bytes, here), shift)
        if shift > 3 and at < 15 then
            local next_at = at + 1
            local there = next_at < 8 and high + 8 + next_at or high + next_at - 8
            value = bor(value, lshift(byte(bytes, there), 8 - shift))
        end
        id_text[25 - i] = digits[band(value, 31)]
    end
    return ffi.string(id_text, 26)
end

local function refuse(status, why)
    ngx.status = status
    ngx.header["Content-Type"] = "application/problem+json"
    ngx.print('{"status":', status, ',"code":"', why, '"}')
end

function peer.buy()
    local ticket = base64.decode_base64url(string.sub(ngx.var.uri, 9)) -- behind /v1/buy/
    ngx.req.read_body()
    local qty = match(ngx.req.get_body_data() or '{"qty":1}', '^{"qty":(%d+)}$')
    if not ticket or #ticket ~= 56 or not qty then
        return refuse(400, "bad_request")
    end
    local set = peer.settings
    local expires, user, item = number(ticket, 3) % 2 ^ 48, number(ticket, 9), number(ticket, 17)
    local id = order_id(ticket, 25)
    local attempt = byte(ticket, 33) + 0x100 * byte(ticket, 34) + 0x10000 * band(byte(ticket, 35), 15)
    local who, what = text("%d", user), text("%d", item)
    local keys = set.prefix .. set.epoch .. ":"
    local bucket = what .. ":" .. user % 16
    local connection = redis:new()
    connection:set_timeout(60000)
    local ok, trouble = connection:connect(set.host, set.port)
    if not ok then
        return refuse(503, trouble)
    end
    local answer
    answer, trouble = connection:evalsha(set.sha, 5, set.prefix .. "meta", keys .. "i:" .. what,
        keys .. "b:" .. bucket, keys .. "o:" .. bucket, set.prefix .. "out", set.place, id, who,
        set.format .. id .. " " .. who .. " " .. what .. " " .. qty .. " ", qty,
        text("%d", ngx.now() * 1000), text("%d", expires), attempt)
    if not answer then
        return refuse(503, trouble)
    end
    connection:set_keepalive(60000, 1024)
    local verdict, held = match(answer, "^(%d+) %d+ (%d+)")
    if verdict ~= set.done then
        return refuse(409, "sold_out")
    end
    ngx.status = 202
    ngx.header["Content-Type"] = "application/json"
    ngx.header["Cache-Control"] = "no-store"
    ngx.header["Location"] = "/v1/orders/" .. id
    ngx.print('{"order_id":"', id, '","status":"QUEUED","held":', held, '}')
end

return peer
