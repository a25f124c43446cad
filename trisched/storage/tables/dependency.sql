-- lock --
-- One change of dependencies at a time: two that race could close a cycle that neither sees.
UPDATE cluster SET leader_epoch = leader_epoch WHERE id = 1

-- edges --
SELECT job.name, dependency.needs FROM dependency JOIN job ON job.id = dependency.job_id WHERE job.deleted_at IS NULL

-- dependents --
SELECT job.name FROM dependency JOIN job ON job.id = dependency.job_id
WHERE dependency.needs = :name AND job.deleted_at IS NULL ORDER BY job.name

-- clear --
DELETE FROM dependency WHERE job_id = :job_id

-- add --
INSERT INTO dependency (job_id, needs) VALUES (:job_id, :needs)
