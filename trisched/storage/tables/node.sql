-- register --
-- A node takes its row if it is new, or if the one before it has left or let its lease run out.
INSERT INTO node (id, incarnation, beat_nonce, host, pid, version, tags, queues, tasks, concurrency, started_at,
    last_seen_at, lease_until)
VALUES (:id, :incarnation, :nonce, :host, :pid, :version, :tags, :queues, :tasks, :concurrency, now_us(), now_us(),
    now_us() + :lease_us)
ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, beat_nonce = excluded.beat_nonce,
    host = excluded.host, pid = excluded.pid, version = excluded.version, tags = excluded.tags,
    queues = excluded.queues, tasks = excluded.tasks, concurrency = excluded.concurrency, started_at = excluded.started_at,
    last_seen_at = excluded.last_seen_at, lease_until = excluded.lease_until, draining_at = NULL
WHERE node.lease_until <= now_us() OR node.incarnation = :dead
RETURNING id

-- expire_others --
-- Where only one node can live (its SQLite file is locked), all others are gone, whatever their leases say.
UPDATE node SET lease_until = 0 WHERE incarnation <> :incarnation

-- beat --
-- The nonces sent since the last answer are all ours: one lost reply must not look like a second me.
UPDATE node SET beat_nonce = :nonce, lease_until = now_us() + :lease_us, last_seen_at = now_us()
WHERE id = :id AND incarnation = :incarnation AND beat_nonce {in:nonces}

-- leave --
UPDATE node SET lease_until = 0, last_seen_at = now_us() WHERE id = :id AND incarnation = :incarnation

-- drain --
UPDATE node SET draining_at = now_us() WHERE id = :id AND draining_at IS NULL

-- list --
SELECT id, incarnation, host, pid, version, tags, queues, tasks, concurrency, started_at, last_seen_at, lease_until, draining_at
FROM node ORDER BY id

-- living --
SELECT tags, tasks FROM node WHERE lease_until > now_us() AND concurrency > 0

-- gone --
-- Incarnations that hold runs and cannot be alive: they left, were replaced, or let their lease run out. The
-- last is no proof while it is quiet: then the whole cluster may have been cut off.
-- The walk goes from one incarnation to the next, however many runs each holds.
WITH RECURSIVE holder (incarnation) AS (
    SELECT min(incarnation) FROM run WHERE claim_id IS NOT NULL
    UNION ALL
    SELECT (SELECT min(run.incarnation) FROM run
            WHERE run.claim_id IS NOT NULL AND run.incarnation > holder.incarnation)
    FROM holder WHERE holder.incarnation IS NOT NULL
)
SELECT holder.incarnation FROM holder
WHERE holder.incarnation IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM node WHERE node.incarnation = holder.incarnation AND node.lease_until > 0
    AND (:quiet = 1 OR node.lease_until + :grace_us > (SELECT now_us())))

-- leader_lives --
-- Whether the leader's own node has a living lease: one without has no business to judge others.
SELECT 1 FROM node JOIN cluster ON cluster.leader_incarnation = node.incarnation
WHERE cluster.id = 1 AND node.lease_until > now_us()

-- lapsed --
SELECT 1 FROM node WHERE id = :id AND incarnation = :incarnation AND lease_until <= now_us()

-- forget --
DELETE FROM node WHERE lease_until < now_us() - :age_us
