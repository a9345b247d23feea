#!lua
-- Ledger events of a sale: load_sale, load_item, open, pause, close, retime; and skip, which only
-- moves the cursor. The `rule` of an item is its limit and a copy of its sale's window, so that a
-- buy reads one hash; every change of the sale writes the rules.
-- KEYS: meta, sale, the sale's items, item (of load_item).
-- ARGV: those of event.lua, then sale, starts, ends, bar, item, amount, limit, key prefix of items.
local function refuse(refusal)
    return VERDICT_REFUSED .. ' ' .. refusal .. ' 0 0 0 0'
end
local function done(available, news, ...)
    write_meta(event, ...)
    if news then
        tell(news)
    end
    return VERDICT_DONE .. ' 0 0 0 ' .. available .. ' 0'
end

if kind == GATE_SKIP then
    return done(0)
elseif kind ~= GATE_LOAD_SALE and kind ~= GATE_LOAD_ITEM and kind ~= GATE_OPEN
    and kind ~= GATE_PAUSE and kind ~= GATE_CLOSE and kind ~= GATE_RETIME then
    return refuse(REFUSAL_BAD_REQUEST)
end
local left = call('HMGET', KEYS[1], 'items_left', 'sales_left', 'shares')
local of_buyer, of_item, of_sale, buyers = match(left[3], '^(%d+) (%d+) (%d+) (%d+)$')
local sale = call('HMGET', KEYS[2], 'state', 'starts', 'ends', 'bar')

if kind == GATE_LOAD_SALE then
    if sale[1] then
        return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
    elseif tonumber(left[2]) <= 0 then
        return refuse(REFUSAL_OVERLOADED)
    end
    call('HSET', KEYS[2], 'state', SALE_WARM, 'starts', ARGV[8], 'ends', ARGV[9], 'bar', ARGV[10],
        'forgetting', 0)
    call('HINCRBY', KEYS[1], 'sales_left', -1)
    return done(0, 's ' .. ARGV[7], ARGV[7],
        struct.pack('<ddd', of_sale, buyers, of_buyer))
end

if not sale[1] then
    return refuse(REFUSAL_NOT_FOUND)
end
if kind == GATE_LOAD_ITEM then
    if call('EXISTS', KEYS[4]) == 1 then
        return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
    elseif tonumber(ARGV[12]) > STOCK_MAX then
        return refuse(REFUSAL_BAD_REQUEST)
    elseif tonumber(left[1]) <= 0 then
        return refuse(REFUSAL_OVERLOADED)
    end
    call('HSET', KEYS[4], 'available', ARGV[12], 'locked', 0, 'version', 1,
        'rule', ARGV[13] .. ' ' .. table.concat(sale, ' '),
        'share', struct.pack('<ds', of_item, ARGV[7]), 'sold', 0, 'total', ARGV[12],
        'sale', ARGV[7])
    call('SADD', KEYS[3], ARGV[11])
    call('HINCRBY', KEYS[1], 'items_left', -1)
    return done(ARGV[12], 'i ' .. ARGV[11])
end

-- Closed is final. Its end may still be sent again.
if tonumber(sale[1]) == SALE_CLOSED and kind ~= GATE_CLOSE and kind ~= GATE_RETIME then
    return refuse(REFUSAL_BAD_STATE)
elseif kind == GATE_OPEN then
    sale[1], sale[2] = text('%d', SALE_OPEN), ARGV[8]
elseif kind == GATE_PAUSE then
    sale[1] = text('%d', SALE_PAUSED)
elseif kind == GATE_CLOSE then
    sale[1] = text('%d', SALE_CLOSED)
else
    sale[3] = ARGV[9]
end
call('HSET', KEYS[2], 'state', sale[1], 'starts', sale[2], 'ends', sale[3])
for _, item in ipairs(call('SMEMBERS', KEYS[3])) do
    local key = ARGV[14] .. item
    local limit = match(call('HGET', key, 'rule'), '^(%d+)')
    call('HSET', key, 'rule', limit .. ' ' .. table.concat(sale, ' '))
    call('HINCRBY', key, 'version', 1)
end
return done(0, 's ' .. ARGV[7])
