-- seen --
SELECT leader_epoch, leader_node, leader_incarnation, leader_until, now_us() FROM cluster WHERE id = 1

-- take --
-- A new epoch, only on top of the one that was seen, and only when its lease is over or was given up.
UPDATE cluster SET leader_epoch = leader_epoch + 1, leader_node = :node_id, leader_incarnation = :incarnation,
    leader_until = now_us() + :lease_us
WHERE id = 1 AND leader_epoch = :epoch AND (leader_until <= now_us() OR :only_one = 1)

-- renew --
UPDATE cluster SET leader_until = now_us() + :lease_us
WHERE id = 1 AND leader_epoch = :epoch AND leader_incarnation = :incarnation

-- resign --
UPDATE cluster SET leader_until = 0 WHERE id = 1 AND leader_epoch = :epoch AND leader_incarnation = :incarnation

-- guard --
-- Every write of a leader begins with this: a paused one that was replaced writes nothing.
SELECT 1 FROM cluster WHERE id = 1 AND leader_epoch = :epoch AND leader_until > now_us() {lock}
