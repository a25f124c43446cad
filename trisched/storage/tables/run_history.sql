-- expired --
-- Ids begin with the time they were made: the scan ends where runs are too young to be old enough.
SELECT id FROM run
WHERE id < :bound AND (
    (status = 'completed' AND finished_at < :completed_before)
    OR (status IN ('dead', 'cancelled', 'skipped') AND finished_at < :others_before))
ORDER BY id LIMIT :most

-- remove_runs --
DELETE FROM run WHERE id {in:ids}

-- remove_attempts --
DELETE FROM attempt WHERE run_id {in:ids}

-- remove_output --
DELETE FROM output WHERE run_id {in:ids}
