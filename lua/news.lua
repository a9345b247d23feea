-- How scripts publish news of their segment; scripts.c inserts it after their first line.
-- KEYS[1]: meta.
-- In a Cluster, SPUBLISH reaches the servers that have the segment, PUBLISH all servers. A subscriber
-- has subscribed with SUBSCRIBE and SSUBSCRIBE. One of an older version, or one whose user may not
-- call SSUBSCRIBE, has only the first. So PUBLISH is needed if there are more of the first.
-- News are hints. An error must not stop a script halfway: hence pcall.
local function tell(news)
    local channel = string.sub(KEYS[1], 1, -5) .. 'news'
    if NEWS_SHARDED == 1 then
        local heard = tonumber(redis.pcall('SPUBLISH', channel, news)) or 0
        local subscribed = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
        if subscribed and subscribed <= heard then
            return
        end
    end
    redis.pcall('PUBLISH', channel, news)
end
