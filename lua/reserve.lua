#!lua
-- A buy, the only command that is decided here first. All checks come before the first write. The
-- first write is the outbox, the only one that can fail.
-- With `again`, an earlier decision is repeated: with its own time, also while the segment is being
-- rebuilt, whatever has become of ticket and sale since.
-- KEYS: meta, item, the buyer's bucket, the order's bucket, outbox.
-- ARGV: place (epoch and run id), order id, user, the outbox entry without its time, qty, now, the
--       ticket's expiry, the id's attempt (-1: a fresh id, -2: another buyer's); again: 1, fence.
-- This script is hot. It reads each number once (`+ 0` costs half of tonumber) and has the names of
-- our lists in double quotes, where they become part of a text.
local call, match, text = redis.call, string.match, string.format
local meta = call('HMGET', KEYS[1], 'place', 'high', 'orders_left', 'buyers_left', 'out_max')
local again = ARGV[9] == '1'
if meta[1] ~= ARGV[1] and not (again and meta[1] == ARGV[1] .. ' closed') then
    return 'X ' .. (meta[1] or '-')
end
if again and ARGV[10] ~= '0' then
    local fence = call('HGET', KEYS[1], 'fence')
    if tonumber(ARGV[10]) < tonumber(fence) then
        return 'F ' .. fence
    end
end
local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule')
if not item[1] then
    return "VERDICT_REFUSED REFUSAL_NO_SUCH_ITEM 0 0 0 0"
end

local limit, state, starts, ends = match(item[4], '^(%d+) (%d+) (%-?%d+) (%-?%d+)')
local held, ended, barred = '0', '0', '0'
local buyer = call('HGET', KEYS[3], ARGV[3])
if buyer then
    held, ended, barred = match(buyer, '^(%d+) (%d+) (%d+)$')
end
local function refuse(refusal)
    return "VERDICT_REFUSED " .. refusal .. ' ' .. held .. ' ' .. limit .. ' ' .. item[1] .. ' '
        .. item[2]
end

local order = call('HGET', KEYS[4], ARGV[2])
if order then
    local user, qty = match(order, '^(%d+) (%d+) ')
    if user ~= ARGV[3] then
        return refuse(REFUSAL_BAD_TICKET)
    elseif qty ~= ARGV[5] then
        return refuse(REFUSAL_DIFFERENT_REQUEST)
    end
    return "VERDICT_ALREADY_APPLIED 0 " .. held .. ' ' .. limit .. ' ' .. item[1] .. ' ' .. item[2]
        .. ' o ' .. order
end

-- Times are kept as texts. A buyer's time is never below the highest seen.
local now, now_text, high = ARGV[6] + 0, ARGV[6], meta[2] + 0
if not again and now < high then
    now, now_text = high, meta[2]
end
local fits
if limit == '1' then
    fits = ARGV[8] == ended
else
    fits = ARGV[8] == '-1'
end
if not fits or not again and now >= ARGV[7] + 0 then
    return refuse(REFUSAL_BAD_TICKET)
elseif now >= ends + 0 or not again and state == "SALE_CLOSED" then
    return refuse(REFUSAL_ENDED)
elseif not again and state ~= "SALE_WARM" and state ~= "SALE_OPEN" then
    return refuse(REFUSAL_NOT_OPEN)
elseif now < starts + 0 then
    return refuse(REFUSAL_TOO_EARLY)
elseif item[1] == '0' then
    return refuse(REFUSAL_SOLD_OUT)
elseif barred ~= '0' and (barred == '1' or not again and now < barred + 0) then
    return refuse(REFUSAL_BARRED) .. ' w ' .. barred
end
local left, qty, holds = item[1] - ARGV[5], ARGV[5] + 0, held + ARGV[5]
if ended ~= '0' and ended + 0 >= BUYER_FAILED_ATTEMPTS_MAX or limit ~= '0' and holds > limit + 0 then
    return refuse(REFUSAL_LIMIT_REACHED)
elseif left < 0 then
    return refuse(REFUSAL_SOLD_OUT)
end
local orders_left, buyers_left = meta[3] - 1, buyer and 0 or meta[4] - 1
if orders_left < 0 or buyers_left < 0 or holds > UINT32_MAX then
    return refuse(REFUSAL_OVERLOADED)
elseif meta[5] ~= '0' and not again and call('XLEN', KEYS[5]) >= meta[5] + 0 then
    return refuse(REFUSAL_OVERLOADED)
end

order = ARGV[3] .. ' ' .. ARGV[5] .. " ORDER_QUEUED 0 1 " .. now_text .. ' 0'
call('XADD', KEYS[5], '*', 'reserve', ARGV[4] .. now_text)
left, held = text('%d', left), text('%d', holds)
local taken = text('%d', item[2] + qty)
call('HSET', KEYS[2], 'available', left, 'locked', taken, 'version', text('%d', item[3] + 1))
call('HSET', KEYS[3], ARGV[3], held .. ' ' .. ended .. ' ' .. barred)
call('HSET', KEYS[4], ARGV[2], order)
orders_left, buyers_left = text('%d', orders_left), buyer and meta[4] or text('%d', buyers_left)
if now > high then
    call('HSET', KEYS[1], 'orders_left', orders_left, 'buyers_left', buyers_left, 'high', now_text)
else
    call('HSET', KEYS[1], 'orders_left', orders_left, 'buyers_left', buyers_left)
end
return "VERDICT_DONE 0 " .. held .. ' ' .. limit .. ' ' .. left .. ' ' .. taken .. ' o ' .. order
