-- now --
-- The database's clock: the only one that decides anything.
SELECT now_us()

-- claim --
-- The head of one queue becomes this node's, while the node's own lease is good. One queue per claim: then
-- both databases read the partial index in order and stop at the limit.
WITH picked AS MATERIALIZED (
    SELECT {place} AS place FROM run
    WHERE status = 'queued' AND queue = :queue {where}
      AND EXISTS (SELECT 1 FROM node WHERE node.id = :node_id AND node.incarnation = :incarnation
                  AND node.lease_until > now_us() AND node.draining_at IS NULL)
    ORDER BY rank, id LIMIT :most {skip_locked}
)
UPDATE run SET status = 'running', token = token + 1, claim_id = :claim_id, node_id = :node_id,
    incarnation = :incarnation, attempt = attempt + 1, started_at = (SELECT now_us()), reason = NULL
WHERE {at:picked}
RETURNING id, job_id, parameters, overrides, retries, attempt, failures, token, claim_id, slot_at, key,
    started_at, rank

-- except_jobs --
-- Fragment of claim: jobs that this node cannot run are left for others.
AND NOT (job_id {in:excluded})

-- report --
-- How far an attempt under way is. Who is ending it right now says so better: such rows are passed over.
UPDATE run SET progress = :progress
WHERE id IN (SELECT id FROM run WHERE id = :id AND (status = 'running') IS TRUE AND claim_id = :claim_id {skip_locked})

-- complete --
-- Only who holds the claim may complete. Status and claim are compared so that no partial index on them can tempt
-- the planner, whose statistics of a queue are always stale.
UPDATE run SET status = 'completed', claim_id = NULL, finished_at = (SELECT now_us())
WHERE id {in:ids} AND (status = 'running') IS TRUE AND token = :token AND coalesce(claim_id, '') {in:claims}
RETURNING id

-- end_attempt --
-- Every other end of an attempt. A run that is to be stopped is not put back in line.
UPDATE run SET status = :status, claim_id = NULL, reason = :reason,
    attempt = attempt - :uncounted, failures = failures + :failed, crashes = crashes + :crashed,
    due_at = CASE WHEN :delay_us < 0 THEN due_at ELSE now_us() + :delay_us END,
    finished_at = CASE WHEN :finished = 1 THEN now_us() END
WHERE id = :id AND status = 'running' AND token = :token AND claim_id = :claim_id
  AND (:requeues = 0 OR cancel_requested_at IS NULL)
RETURNING id, queue

-- give_back --
-- A claim whose answer never came, or came too late: nothing was started.
UPDATE run SET status = 'queued', claim_id = NULL, attempt = attempt - 1
WHERE claim_id = :claim_id AND status = 'running'
RETURNING queue

-- give_back_run --
UPDATE run SET status = 'queued', claim_id = NULL, attempt = attempt - 1
WHERE id = :id AND token = :token AND claim_id = :claim_id AND status = 'running'

-- promote --
-- What waited for its time is put in line; aging counts from the moment it was due.
UPDATE run SET status = 'queued', rank = due_at + priority * 3600000000
WHERE id IN (
    SELECT id FROM run
    WHERE status IN ('pending', 'retrying') AND waits IS NULL AND due_at <= (SELECT now_us())
    ORDER BY due_at LIMIT :most {skip_locked}
)
RETURNING queue

-- next_due --
SELECT min(due_at) FROM run WHERE status IN ('pending', 'retrying') AND waits IS NULL

-- waiting_jobs --
-- Jobs with runs that wait for an earlier one, and whether one of those still is under way.
SELECT DISTINCT job_id FROM run WHERE status = 'pending' AND waits = 'overlap'

-- free_waiting --
-- The earliest waiting run of a job goes on when no other run of the job is under way.
UPDATE run SET status = 'queued', waits = NULL, due_at = now_us(), rank = now_us() + priority * 3600000000
WHERE id = (SELECT id FROM run WHERE job_id = :job_id AND status = 'pending' AND waits = 'overlap'
            ORDER BY slot_at, id LIMIT 1)
  AND status = 'pending'
  AND NOT EXISTS (SELECT 1 FROM run AS other WHERE other.job_id = :job_id AND other.finished_at IS NULL
                  AND other.status IN ('queued', 'running', 'retrying'))
RETURNING queue

-- add --
INSERT INTO run (id, job_id, job_revision, queue, status, priority, rank, due_at, slot_at, key, origin, parameters,
    overrides, retries, attempt, failures, crashes, token, waits, reason, created_at, finished_at, limit_group, unique_key,
    flow_id, upstream_when, feeds)
VALUES (:id, :job_id, :job_revision, :queue, :status, :priority, :rank, :due_at, :slot_at, :key, :origin, :parameters,
    :overrides, :retries, 0, 0, 0, 0, :waits, :reason, :created_at, :finished_at, :limit_group, :unique_key,
    :flow_id, :upstream_when, :feeds)
ON CONFLICT DO NOTHING
RETURNING id

-- with_keys --
SELECT key, id, status, parameters, created_at FROM run WHERE job_id = :job_id AND key {in:keys}

-- drop_key --
-- A key is free again when its lifetime is over.
UPDATE run SET key = NULL WHERE id = :id AND key = :key

-- active_like --
-- The run that a trigger without a key collapses onto.
SELECT id, status FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND status IN ('pending', 'queued', 'running', 'retrying')
  AND parameters = :parameters AND cancel_requested_at IS NULL
ORDER BY id LIMIT 1

-- active_jobs --
-- Which of these jobs have a run that is not over.
SELECT DISTINCT job_id FROM run
WHERE job_id {in:jobs} AND finished_at IS NULL AND status IN ('pending', 'queued', 'running', 'retrying')

-- active_of_job --
SELECT id, status FROM run
WHERE job_id = :job_id AND finished_at IS NULL AND status IN ('pending', 'queued', 'running', 'retrying')

-- cancel --
-- What waits is over, what runs is asked to stop; in one statement, so that no change of status slips through.
UPDATE run SET cancel_requested_at = coalesce(cancel_requested_at, now_us()),
    status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END,
    finished_at = CASE WHEN status = 'running' THEN finished_at ELSE now_us() END,
    reason = CASE WHEN status = 'running' THEN reason ELSE :reason END
WHERE id = :id AND status IN ('pending', 'queued', 'running', 'retrying', 'held')
RETURNING id, status

-- cancel_of --
UPDATE run SET cancel_requested_at = coalesce(cancel_requested_at, now_us()),
    status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END,
    finished_at = CASE WHEN status = 'running' THEN finished_at ELSE now_us() END,
    reason = CASE WHEN status = 'running' THEN reason ELSE :reason END
WHERE job_id = :job_id AND finished_at IS NULL AND status IN ('pending', 'queued', 'running', 'retrying', 'held')
RETURNING id, status

-- cancels_of --
-- The runs of a node that somebody asked to stop.
SELECT id FROM run WHERE incarnation = :incarnation AND claim_id IS NOT NULL AND cancel_requested_at IS NOT NULL

-- revive --
-- The same run again with a fresh count of failures; its attempts stay.
UPDATE run SET status = 'queued', failures = 0, crashes = 0, due_at = now_us(),
    rank = now_us() + priority * 3600000000, reason = NULL, cancel_requested_at = NULL, finished_at = NULL, waits = NULL
WHERE id = :id AND status IN ('dead', 'cancelled', 'held')
RETURNING queue

-- resolve --
UPDATE run SET status = 'completed', finished_at = now_us(), reason = :reason
WHERE id = :id AND status = 'held'
RETURNING id

-- claimed_by --
-- What an incarnation holds, for the rescue when it is gone.
SELECT run.id, run.token, run.claim_id, run.attempt, run.crashes, run.node_id, run.started_at, job.spec
FROM run JOIN job ON job.id = run.job_id
WHERE run.incarnation = :incarnation AND run.claim_id IS NOT NULL
ORDER BY run.id LIMIT :most

-- claims_of --
SELECT id, claim_id, node_id, incarnation FROM run WHERE id {in:ids} AND coalesce(claim_id, '') <> ''

-- count_claimed --
SELECT incarnation, count(*) FROM run WHERE claim_id IS NOT NULL GROUP BY incarnation

-- get --
SELECT {columns} FROM run WHERE id = :id

-- list --
SELECT {columns} FROM run WHERE {where} ORDER BY id DESC LIMIT :most

-- list_of_job --
-- Active and finished runs of a job are in two indexes; the newest of both are the newest.
SELECT {columns} FROM (
    SELECT * FROM (SELECT {columns} FROM run WHERE job_id = :job_id AND finished_at IS NULL AND {where}
                   ORDER BY id DESC LIMIT :most) AS active
    UNION ALL
    SELECT * FROM (SELECT {columns} FROM run WHERE job_id = :job_id AND finished_at IS NOT NULL AND {where}
                   ORDER BY id DESC LIMIT :most) AS finished
) AS runs ORDER BY id DESC LIMIT :most

-- newest_of_job --
-- Fragment, where a row of job is at hand: the id of its newest run, by one look at the end of each index.
(SELECT max(newest.id) FROM (
    SELECT max(active.id) AS id FROM run AS active WHERE active.job_id = job.id AND active.finished_at IS NULL
    UNION ALL
    SELECT max(finished.id) FROM run AS finished WHERE finished.job_id = job.id AND finished.finished_at IS NOT NULL
) AS newest)

-- last_of_jobs --
SELECT {columns} FROM run WHERE id IN (SELECT {newest} FROM job WHERE job.id {in:jobs})

-- queue_heads --
-- Queues that have something to hand out, the most urgent first.
SELECT queue.name, (SELECT min(run.rank) FROM run WHERE run.queue = queue.name AND run.status = 'queued') AS head
FROM queue WHERE queue.paused_at IS NULL
  AND EXISTS (SELECT 1 FROM run WHERE run.queue = queue.name AND run.status = 'queued')
ORDER BY head

-- finished_since --
-- Ids are in the order of time: only the end of the table is read.
SELECT status, count(*) FROM run WHERE id >= :oldest AND finished_at >= :since GROUP BY status

-- unfinished --
SELECT queue, status, count(*) FROM run WHERE finished_at IS NULL GROUP BY queue, status

-- of_slots --
-- The runs of a job's slots in a range; ``first start`` is that of the earliest attempt that is known.
SELECT id, slot_at, status, reason, origin, coalesce(
    (SELECT min(attempt.started_at) FROM attempt WHERE attempt.run_id = run.id), run.started_at)
FROM run WHERE job_id = :job_id AND slot_at IS NOT NULL AND slot_at >= :first AND slot_at <= :last
ORDER BY slot_at LIMIT :most

-- taken_slots --
SELECT slot_at, status FROM run
WHERE job_id = :job_id AND slot_at IS NOT NULL AND slot_at >= :first AND slot_at <= :last

-- finished_of_job --
SELECT id, status, started_at, finished_at FROM run
WHERE job_id = :job_id AND finished_at IS NOT NULL AND started_at IS NOT NULL
ORDER BY id DESC LIMIT :most
