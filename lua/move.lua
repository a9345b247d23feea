#!lua
-- Ledger events of one order: confirm, refuse, pay, cancel, cancel_late, cancel_cooling, expire,
-- expire_cooling. Publishes the order, and the item if units came back. A final order leaves the
-- shares of its buyer, its item and its sale.
-- KEYS: meta, item, the order's bucket.
-- ARGV: those of event.lua, then order id, state before, state after, time (pay_by, or the end of the
--       cooling time), reason, item, key prefix of buyers' buckets, user and quantity (0: not known).
local order = call('HGET', KEYS[3], ARGV[7])
local sale = call('HGET', KEYS[2], 'sale')
-- What is left of the sale's shares, with more orders and buyers.
local function shares(orders, buyers)
    local left, left_buyers, of_buyer = struct.unpack('<ddd', call('HGET', KEYS[1], sale))
    return struct.pack('<ddd', left + orders, left_buyers + buyers, of_buyer)
end
if not order and kind == GATE_FAIL_ORDER and ARGV[14] ~= '0' and sale then
    -- The order failed without a decision here (it was undecided, or the decision was lost). Store
    -- it, so that the buyer sees it and it counts as an attempt.
    local key = ARGV[13] .. tonumber(ARGV[14]) % REDIS_BUCKETS
    local buyer = call('HGET', key, ARGV[14])
    local held, ended, barred, live = match(buyer or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
    local orders, buyers, check = struct.unpack('<ddd', call('HGET', KEYS[1], 'room'))
    local new = buyer and 0 or 1
    call('HSET', key, ARGV[14], text('%s %d %s %s', held, ended + 1, barred, live))
    order = ARGV[14] .. ' ' .. ARGV[15] .. ' ' .. ARGV[9] .. ' ' .. ARGV[11] .. ' 2 ' .. ARGV[5] .. ' 0'
    call('HSET', KEYS[3], ARGV[7], order)
    if orders > 0 then
        orders = orders - 1
    end
    if buyers > 0 then
        buyers = buyers - new
    end
    write_meta(event, 'room', struct.pack('<ddd', orders, buyers, check), sale, shares(0, -new))
    tell('o ' .. ARGV[7] .. ' ' .. order)
    return VERDICT_DONE .. ' 0 0 0 0 0 o ' .. order
elseif not order then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_NOT_FOUND .. ' 0 0 0 0'
end
local user, qty_text, state, reason, version, created, pay_by =
    match(order, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%-?%d+)$')
if state == ARGV[9] then
    return VERDICT_ALREADY_APPLIED .. ' 0 0 0 0 0 o ' .. order
elseif state ~= ARGV[8] then
    return VERDICT_REFUSED .. ' ' .. REFUSAL_BAD_STATE .. ' 0 0 0 0'
end

local item = call('HMGET', KEYS[2], 'available', 'locked', 'version', 'rule', 'sold', 'total', 'share')
local qty, to = tonumber(qty_text), tonumber(ARGV[9])
local final, returns = to ~= ORDER_LOCKED, to ~= ORDER_LOCKED and to ~= ORDER_PAID
local buyers_key, held, ended, barred, live
if final then
    buyers_key = ARGV[13] .. tonumber(user) % REDIS_BUCKETS
    held, ended, barred, live =
        match(call('HGET', buyers_key, user) or '', '^(%d+) (%d+) (%d+) (%d+)$')
end
-- Impossible in an intact segment: change nothing, it needs recovery.
if not item[1] or tonumber(item[2]) < qty or final and (not held or live == '0')
    or returns and tonumber(held) < qty then
    return redis.error_reply('BROKEN order ' .. ARGV[7] .. ' has no units to move')
end

local available, locked, next_version = item[1], item[2], text('%d', item[3] + 1)
local share
if final then
    locked = text('%d', locked - qty)
    share = struct.pack('<ds', struct.unpack('<d', item[7]) + 1, sale)
    live = text('%d', live - 1)
end
if to == ORDER_LOCKED then
    pay_by = ARGV[10]
    call('HSET', KEYS[2], 'version', next_version)
elseif to == ORDER_PAID then
    call('HSET', KEYS[2], 'locked', locked, 'version', next_version, 'share', share,
        'sold', text('%d', item[5] + qty))
    call('HSET', buyers_key, user, held .. ' ' .. ended .. ' ' .. barred .. ' ' .. live)
else
    if to == ORDER_FAILED then
        reason = ARGV[11]
    elseif kind == GATE_CANCEL_LATE then
        reason = REFUSAL_BARRED
    end
    if to == ORDER_FAILED and tonumber(reason) == REFUSAL_NO_STOCK then
        call('HSET', KEYS[2], 'locked', locked, 'version', next_version, 'share', share,
            'total', text('%d', item[6] - qty))
    else
        available = text('%d', available + qty)
        call('HSET', KEYS[2], 'available', available, 'locked', locked, 'version', next_version,
            'share', share)
    end
    if kind == GATE_CANCEL_LATE or to == ORDER_EXPIRED and match(item[4], ' (%d)$') ~= '0' then
        barred = '1'
    else
        ended = text('%d', ended + 1)
        -- A later cooling time never ends an earlier one sooner, nor a bar.
        if (kind == GATE_CANCEL_COOLING or kind == GATE_EXPIRE_COOLING) and barred ~= '1'
            and tonumber(ARGV[10]) > tonumber(barred) then
            barred = ARGV[10]
        end
    end
    call('HSET', buyers_key, user,
        text('%d', held - qty) .. ' ' .. ended .. ' ' .. barred .. ' ' .. live)
end
order = user .. ' ' .. qty_text .. ' ' .. ARGV[9] .. ' ' .. reason .. ' '
    .. text('%d', version + 1) .. ' ' .. created .. ' ' .. pay_by
call('HSET', KEYS[3], ARGV[7], order)
if final then
    write_meta(event, sale, shares(1, 0))
else
    write_meta(event)
end
tell('o ' .. ARGV[7] .. ' ' .. order)
if available ~= item[1] then
    tell('i ' .. ARGV[12])
end
return VERDICT_DONE .. ' 0 0 0 ' .. available .. ' ' .. locked .. ' o ' .. order
