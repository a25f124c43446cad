-- change --
-- A new revision, only on top of the one that was seen.
UPDATE job SET name = :name, revision = revision + 1, spec = :spec, type = :type, queue = :queue,
    schedule_kind = :schedule_kind, next_slot_at = :next_slot_at, next_due_at = :next_due_at,
    dispatch_failures = 0, alarm = NULL, disabled_at = :disabled_at, updated_at = now_us()
WHERE id = :id AND revision = :revision AND deleted_at IS NULL

-- remove --
-- The row stays for the history of its runs; its name is free again.
UPDATE job SET deleted_at = now_us(), next_slot_at = NULL, next_due_at = NULL, revision = revision + 1,
    updated_at = now_us()
WHERE id = :id AND deleted_at IS NULL

-- get --
-- A lock keeps the job from being removed, or changed, until the caller is done.
SELECT {columns} FROM job WHERE id = :ref AND deleted_at IS NULL {lock}

-- by_name --
SELECT {columns} FROM job WHERE name = :ref AND deleted_at IS NULL {lock}

-- all --
SELECT {columns} FROM job WHERE deleted_at IS NULL ORDER BY name

-- changed --
-- Jobs written since the caller last looked; the watermark is a little behind, so none is missed.
SELECT {columns} FROM job WHERE updated_at >= :since

-- list --
SELECT {columns} FROM job WHERE deleted_at IS NULL AND {where} ORDER BY {order} LIMIT :most OFFSET :skip

-- count --
SELECT count(*) FROM job WHERE deleted_at IS NULL AND {where}

-- due --
-- Jobs whose next slot has come; the longest overdue first.
SELECT id, revision, next_slot_at, dispatch_failures, queue FROM job
WHERE next_due_at IS NOT NULL AND next_due_at <= (SELECT now_us())
ORDER BY next_due_at LIMIT :most

-- still_due --
-- Held until the transaction is over: a job that was changed, switched off or removed meanwhile makes no run.
SELECT id, revision, next_slot_at FROM job WHERE id {in:ids} AND next_due_at IS NOT NULL ORDER BY id {lock}

-- next_due --
SELECT min(next_due_at) FROM job WHERE next_due_at IS NOT NULL

-- advance --
-- Only the scheduler that saw this slot moves it on, and only on the revision that it planned with.
UPDATE job SET next_slot_at = :next_slot_at, next_due_at = :next_due_at, dispatch_failures = 0, alarm = NULL
WHERE id = :id AND revision = :revision AND next_slot_at = :slot_at

-- dispatch_failed --
UPDATE job SET dispatch_failures = dispatch_failures + 1, alarm = :alarm, next_due_at = now_us() + :wait_us
WHERE id = :id AND revision = :revision AND next_slot_at = :slot_at

-- give_up_slot --
UPDATE job SET next_slot_at = :next_slot_at, next_due_at = :next_due_at, dispatch_failures = 0, alarm = :alarm
WHERE id = :id AND revision = :revision AND next_slot_at = :slot_at

-- clear_tags --
DELETE FROM job_tag WHERE job_id = :job_id

-- add_tag --
INSERT INTO job_tag (job_id, tag) VALUES (:job_id, :tag)

-- add_queue --
INSERT INTO queue (name) VALUES (:name) ON CONFLICT DO NOTHING

-- queues --
SELECT name, paused_at FROM queue ORDER BY name

-- names_of_ids --
-- Also of jobs that were removed.
SELECT id, name FROM job WHERE id {in:ids}

-- known_names --
SELECT name FROM job WHERE name {in:names} AND deleted_at IS NULL

-- of_names --
SELECT {columns} FROM job WHERE name {in:names} AND deleted_at IS NULL

-- with_function --
-- Jobs made by code that may call a function: the text of the definition is searched, the caller looks closer.
SELECT {columns} FROM job WHERE deleted_at IS NULL AND origin = 'code' AND type = 'python'
    AND spec LIKE :pattern ESCAPE '!'
ORDER BY name

-- totals --
SELECT count(*), count(disabled_at), count(coalesce(alarm, unrunnable)) FROM job WHERE deleted_at IS NULL

-- count_by_last --
-- Jobs by the status of their newest run.
SELECT last_status, count(*) FROM (
    SELECT (SELECT run.status FROM run WHERE run.id = {newest}) AS last_status
    FROM job WHERE deleted_at IS NULL) AS jobs
WHERE last_status IS NOT NULL GROUP BY last_status

-- count_running --
SELECT count(DISTINCT job_id) FROM run WHERE claim_id IS NOT NULL

-- alarms --
SELECT id, name, coalesce(alarm, unrunnable) FROM job
WHERE (alarm IS NOT NULL OR unrunnable IS NOT NULL) AND deleted_at IS NULL ORDER BY name LIMIT :most

-- unrunnable --
SELECT id, unrunnable FROM job WHERE unrunnable IS NOT NULL AND deleted_at IS NULL

-- set_unrunnable --
UPDATE job SET unrunnable = :reason WHERE id = :id
