#!lua
-- Fills a closed segment from the ledger, some rows per call, and opens it. Rows are written as
-- given; a repetition writes the same. What has changed since is left alone: an item with its
-- buyers and orders (if its version differs), a sale once an event was applied, everything once it
-- is open.
-- KEYS: meta.
-- ARGV: place (epoch and run id), fence, version of items, key prefix of this epoch, then rows:
--         s SALE STATE STARTS ENDS BAR
--         i ITEM SALE TOTAL AVAILABLE LOCKED SOLD LIMIT LIVE BUYERS
--         b BUCKET ITEM USER HELD ENDED BARRED LIVE
--         o BUCKET ITEM ID USER QTY STATE REASON VERSION CREATED PAY_BY
--         open (the last)
local call, match = redis.call, string.match
local meta = call('HMGET', KEYS[1], 'place', 'fence', 'event', 'base', 'shares', 'room')
local open = meta[1] == ARGV[1]
if not open and meta[1] ~= ARGV[1] .. ' closed' then
    return 'X ' .. (meta[1] or '-')
elseif tonumber(ARGV[2]) < tonumber(meta[2]) then
    return 'F ' .. meta[2]
elseif open then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
end
local keys = ARGV[4]
local of_buyer, of_item, of_sale, of_sale_buyers = match(meta[5], '^(%d+) (%d+) (%d+) (%d+)$')
-- What is left of the pools falls with each new entry. Below 0: the ledger has more than fits.
local orders, buyers, check = struct.unpack('<ddd', meta[6])

local function changed(item)
    local version = call('HGET', keys .. 'i:' .. item, 'version')
    return version and version ~= ARGV[3]
end

local fill = {}
function fill.s(row)
    if meta[3] ~= meta[4] then
        return true
    end
    local sale, state, starts, ends, bar = match(row, '^(%d+) (%d+) (%-?%d+) (%-?%d+) (%d)$')
    if call('EXISTS', keys .. 's:' .. sale) == 0 then
        call('HINCRBY', KEYS[1], 'sales_left', -1)
        call('HSET', KEYS[1], sale, struct.pack('<ddd', of_sale, of_sale_buyers, of_buyer))
    end
    call('HSET', keys .. 's:' .. sale, 'state', state, 'starts', starts, 'ends', ends, 'bar', bar,
        'forgetting', 0)
    return true
end
function fill.i(row)
    local item, sale, total, available, locked, sold, limit, live, buyers_of =
        match(row, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    local rule = call('HMGET', keys .. 's:' .. sale, 'state', 'starts', 'ends', 'bar')
    if not rule[1] then
        return false
    elseif changed(item) then
        return true
    end
    if call('EXISTS', keys .. 'i:' .. item) == 0 then
        local left, left_buyers = struct.unpack('<dd', call('HGET', KEYS[1], sale))
        call('HINCRBY', KEYS[1], 'items_left', -1)
        call('HSET', KEYS[1], sale,
            struct.pack('<ddd', left - live, left_buyers - buyers_of, of_buyer))
    end
    call('HSET', keys .. 'i:' .. item, 'available', available, 'locked', locked,
        'version', ARGV[3], 'rule', limit .. ' ' .. table.concat(rule, ' '),
        'share', struct.pack('<ds', of_item - live, sale), 'sold', sold, 'total', total,
        'sale', sale)
    call('SADD', keys .. 'm:' .. sale, item)
    return true
end
function fill.b(row)
    local bucket, item, user, rest = match(row, '^(%d+) (%d+) (%d+) (%d+ %d+ %d+ %d+)$')
    if changed(item) then
        return true
    end
    buyers = buyers - call('HSET', keys .. 'b:' .. item .. ':' .. bucket, user, rest)
    return true
end
function fill.o(row)
    local bucket, item, id, rest = match(row, '^(%d+) (%d+) (%S+) (.+)$')
    if changed(item) then
        return true
    end
    orders = orders - call('HSET', keys .. 'o:' .. item .. ':' .. bucket, id, rest)
    return true
end

for i = 5, #ARGV do
    if ARGV[i] == 'open' then
        call('HSET', KEYS[1], 'place', ARGV[1])
        tell('e ' .. match(ARGV[1], '^%d+'))
    elseif not fill[string.sub(ARGV[i], 1, 1)](string.sub(ARGV[i], 3)) then
        return redis.error_reply('BROKEN row ' .. ARGV[i] .. ' has no sale')
    end
end
call('HSET', KEYS[1], 'fence', ARGV[2], 'room', struct.pack('<ddd', orders, buyers, check))
return VERDICT_DONE .. ' 0 0 0 0 0'
