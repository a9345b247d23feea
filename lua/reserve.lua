#!lua
-- A buy, the only command that is decided here first. All checks come before the first write. The
-- first write is the outbox, the only one that can fail.
-- With `again`, an earlier decision is repeated: with its own time, also while the segment is being
-- rebuilt, whatever has become of ticket and sale since. A share that is used up, and a full outbox,
-- refuse new decisions only.
-- KEYS: meta, item, the buyer's bucket, the order's bucket, outbox.
-- ARGV: place (epoch, run id and layout), order id, user, the outbox entry without its time, qty, now,
--       the ticket's expiry, the id's attempt (-1: a fresh id, -2: another buyer's); again: 1, fence.
-- This script is hot. It reads each number and each global once (`+ 0` costs half of tonumber), has the names of our
-- lists in double quotes, where they become part of a text, and makes no function. What is counted
-- down with each buy is packed: a text costs some 3,000 instructions for each number.
local KEYS, ARGV, call, match, text = KEYS, ARGV, redis.call, string.match, string.format
local pack, unpack = struct.pack, struct.unpack
local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule', 'share')
local item_orders, sale = 0, '-'
if item[5] then
    item_orders, sale = unpack('<ds', item[5])
end
local meta = call('HMGET', KEYS[1], 'place', 'high', 'room', sale)
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
if not item[1] then
    return "VERDICT_REFUSED REFUSAL_NO_SUCH_ITEM 0 0 0 0"
end

local limit, state, starts, ends = match(item[4], '^(%d+) (%d+) (%-?%d+) (%-?%d+)')
local held, ended, barred, live = '0', '0', '0', '0'
local buyer = call('HGET', KEYS[3], ARGV[3])
if buyer then
    held, ended, barred, live = match(buyer, '^(%d+) (%d+) (%d+) (%d+)$')
end
local refusal, full
local order = call('HGET', KEYS[4], ARGV[2])
if order then
    local user, qty = match(order, '^(%d+) (%d+) ')
    if user ~= ARGV[3] then
        refusal = "REFUSAL_BAD_TICKET "
    elseif qty ~= ARGV[5] then
        refusal = "REFUSAL_DIFFERENT_REQUEST "
    else
        return "VERDICT_ALREADY_APPLIED 0 " .. held .. ' ' .. limit .. ' ' .. item[1] .. ' '
            .. item[2] .. ' o ' .. order
    end
    return "VERDICT_REFUSED " .. refusal .. held .. ' ' .. limit .. ' ' .. item[1] .. ' ' .. item[2]
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
    refusal = "REFUSAL_BAD_TICKET "
elseif now >= ends + 0 or not again and state == "SALE_CLOSED" then
    refusal = "REFUSAL_ENDED "
elseif not again and state ~= "SALE_WARM" and state ~= "SALE_OPEN" then
    refusal = "REFUSAL_NOT_OPEN "
elseif now < starts + 0 then
    refusal = "REFUSAL_TOO_EARLY "
elseif item[1] == '0' then
    refusal = "REFUSAL_SOLD_OUT "
elseif barred ~= '0' and (barred == '1' or not again and now < barred + 0) then
    return "VERDICT_REFUSED REFUSAL_BARRED " .. held .. ' ' .. limit .. ' ' .. item[1] .. ' '
        .. item[2] .. ' w ' .. barred
end
if refusal then
    return "VERDICT_REFUSED " .. refusal .. held .. ' ' .. limit .. ' ' .. item[1] .. ' ' .. item[2]
end
local qty = ARGV[5] + 0
local left, holds = item[1] - qty, held + qty
if ended ~= '0' and ended + 0 >= BUYER_FAILED_ATTEMPTS_MAX or limit ~= '0' and holds > limit + 0 then
    refusal = "REFUSAL_LIMIT_REACHED "
elseif left < 0 then
    refusal = "REFUSAL_SOLD_OUT "
end
if refusal then
    return "VERDICT_REFUSED " .. refusal .. held .. ' ' .. limit .. ' ' .. item[1] .. ' ' .. item[2]
end

-- Pools, then shares: of the buyer, the item, the sale, and the sale's buyers. `check` is explained at
-- claim.lua.
local orders, buyers, check = unpack('<ddd', meta[3])
local sale_orders, sale_buyers, of_buyer = unpack('<ddd', meta[4])
orders, item_orders, sale_orders, live = orders - 1, item_orders - 1, sale_orders - 1, live + 1
if not buyer then
    buyers, sale_buyers = buyers - 1, sale_buyers - 1
end
if orders < 0 then
    full = GATE_BOUND_ORDERS
elseif not buyer and buyers < 0 then
    full = GATE_BOUND_BUYERS
elseif holds > UINT32_MAX then
    full = GATE_BOUND_UNITS
elseif not again then
    if live > of_buyer and buyer then
        full = GATE_BOUND_BUYER_SHARE
    elseif item_orders < 0 then
        full = GATE_BOUND_ITEM_SHARE
    elseif sale_orders < 0 then
        full = GATE_BOUND_SALE_SHARE
    elseif not buyer and sale_buyers < 0 then
        full = GATE_BOUND_SALE_BUYERS
    elseif orders < check then
        local room = call('HGET', KEYS[1], 'out_max') - call('XLEN', KEYS[5])
        if room <= 0 then
            full = GATE_BOUND_OUTBOX
        end
        check = orders - room + 1
    end
end
if full then
    return "VERDICT_REFUSED REFUSAL_OVERLOADED " .. held .. ' ' .. limit .. ' ' .. item[1] .. ' '
        .. item[2] .. ' f ' .. full
end

order = ARGV[3] .. ' ' .. ARGV[5] .. " ORDER_QUEUED 0 1 " .. now_text .. ' 0'
call('XADD', KEYS[5], '*', 'reserve', ARGV[4] .. now_text)
left, held = text('%d', left), text('%d', holds)
local taken = text('%d', item[2] + qty)
call('HSET', KEYS[2], 'available', left, 'locked', taken, 'version', text('%d', item[3] + 1),
    'share', pack('<ds', item_orders, sale))
call('HSET', KEYS[3], ARGV[3], held .. ' ' .. ended .. ' ' .. barred .. ' ' .. text('%d', live))
call('HSET', KEYS[4], ARGV[2], order)
local room = pack('<ddd', orders, buyers, check)
local shares = pack('<ddd', sale_orders, sale_buyers, of_buyer)
if now > high then
    call('HSET', KEYS[1], 'room', room, sale, shares, 'high', now_text)
else
    call('HSET', KEYS[1], 'room', room, sale, shares)
end
return "VERDICT_DONE 0 " .. held .. ' ' .. limit .. ' ' .. left .. ' ' .. taken .. ' o ' .. order
