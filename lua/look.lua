#!lua flags=no-writes
-- Lookups without changes: an order; an item; what a ticket for an item needs.
-- KEYS: meta, item, the buyer's bucket, the order's bucket.
-- ARGV: place (epoch and run id), kind of lookup, order id (ticket: without the attempt), user.
local place = redis.call('HGET', KEYS[1], 'place')
if place ~= ARGV[1] then
    return 'X ' .. (place or '-')
end

local question = tonumber(ARGV[2])
if question == GATE_REQUEST_ORDER then
    local order = redis.call('HGET', KEYS[4], ARGV[3])
    if not order then
        return VERDICT_REFUSED .. ' ' .. REFUSAL_NOT_FOUND .. ' 0 0 0 0'
    end
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0 o ' .. order
end

local item = redis.call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule', 'sold',
    'total', 'sale')
if not item[1] then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_NO_SUCH_ITEM .. ' 0 0 0 0'
end
local limit, window = string.match(item[4], '^(%d+) (%d+ %-?%d+ %-?%d+)')
local view = table.concat({VERDICT_ALREADY_APPLIED, 0, 0, limit, item[1], item[2], 'i', item[7], item[6],
    item[1], item[2], item[5], limit, window, item[3]}, ' ')
if question == GATE_REQUEST_ITEM then
    return view
end

local buyer = redis.call('HGET', KEYS[3], ARGV[4]) or '0 0 0 0'
local has_order = 0
if limit == '1' then
    -- The last four characters of an order id are its attempt, 20 bits.
    local digits, attempt, text = '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 0, ''
    attempt = tonumber(string.match(buyer, '^%d+ (%d+)'))
    for _ = 1, 4 do
        local digit = attempt % 32
        text = string.sub(digits, digit + 1, digit + 1) .. text
        attempt = (attempt - digit) / 32
    end
    has_order = redis.call('HEXISTS', KEYS[4], ARGV[3] .. text)
end
return view .. ' b ' .. buyer .. ' ' .. has_order
