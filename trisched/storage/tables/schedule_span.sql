-- open --
-- From now on the job has this schedule.
INSERT INTO schedule_span (job_id, since, schedule) VALUES (:job_id, :since, :schedule)
ON CONFLICT (job_id, since) DO UPDATE SET until = NULL, schedule = excluded.schedule

-- close --
-- Until now the job had the schedule that it had.
UPDATE schedule_span SET until = :until WHERE job_id = :job_id AND until IS NULL

-- close_now --
UPDATE schedule_span SET until = now_us() WHERE job_id = :job_id AND until IS NULL

-- of_job --
-- The spans that touch a range, the earliest first.
SELECT since, until, schedule FROM schedule_span
WHERE job_id = :job_id AND since < :last AND (until IS NULL OR until > :first) ORDER BY since

-- any --
SELECT 1 FROM schedule_span WHERE job_id = :job_id LIMIT 1
