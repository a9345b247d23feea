#!lua
-- Forgets a closed sale in steps: at most a given number of orders and buyers per call, orders
-- first, then an item that has none left, then the sale. What is left of the shares stays as it is
-- until then: nobody buys of a closed sale.
-- KEYS: meta, sale, the sale's items.
-- ARGV: those of event.lua, then how many, the key prefixes of items, of orders' and of buyers'
--       buckets, sale.
local state = call('HGET', KEYS[2], 'state')
local budget = tonumber(ARGV[7])
if not state then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0'
elseif tonumber(state) ~= SALE_CLOSED or budget == 0 then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_BAD_STATE .. ' 0 0 0 0'
end

-- Removes entries from the buckets of one item; true if all are empty.
local freed = {orders = 0, buyers = 0}
local function empty(prefix, counter)
    local keys = {}
    for bucket = 0, REDIS_BUCKETS - 1 do
        keys[bucket + 1] = prefix .. bucket
    end
    local full = call('EXISTS', unpack(keys))
    for _, key in ipairs(keys) do
        while full > 0 and budget > 0 do
            -- 1000 at a time: the arguments of a call are on Lua's stack, which has 8000 slots
            local fields = call('HRANDFIELD', key, math.min(budget, 1000))
            if #fields == 0 then
                break
            end
            call('HDEL', key, unpack(fields))
            freed[counter] = freed[counter] + #fields
            budget = budget - #fields
            if call('EXISTS', key) == 0 then
                full = full - 1
            end
        end
    end
    return full == 0
end

-- `room` with what was removed. `check` (claim.lua) moves along: the outbox has not become shorter.
local function room()
    local orders, buyers, check = struct.unpack('<ddd', call('HGET', KEYS[1], 'room'))
    return struct.pack('<ddd', orders + freed.orders, buyers + freed.buyers, check + freed.orders)
end

call('HSET', KEYS[2], 'forgetting', 1)
for _, item in ipairs(call('SMEMBERS', KEYS[3])) do
    if not empty(ARGV[9] .. item .. ':', 'orders')
        or not empty(ARGV[10] .. item .. ':', 'buyers') then
        write_meta(meta[3], 'room', room())
        return VERDICT_MORE .. ' 0 0 0 0 0'
    end
    call('DEL', ARGV[8] .. item)
    call('SREM', KEYS[3], item)
    call('HINCRBY', KEYS[1], 'items_left', 1)
end
call('DEL', KEYS[2], KEYS[3])
call('HINCRBY', KEYS[1], 'sales_left', 1)
call('HDEL', KEYS[1], ARGV[11])
write_meta(event, 'room', room())
tell('s ' .. ARGV[11])
return VERDICT_DONE .. ' 0 0 0 0 0'
