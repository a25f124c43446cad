-- How runs take turns, depend on each other and fail.

-- What the limits of the job count this run by; NULL for a job without limits.
ALTER TABLE run ADD COLUMN limit_group TEXT;

-- A job that says unique has at most one run with this key that is not over.
ALTER TABLE run ADD COLUMN unique_key TEXT;

-- The run that began the flow it belongs to.
ALTER TABLE run ADD COLUMN flow_id TEXT;

-- What its upstream runs must have come to: all_success or all_done; NULL for a run without upstream.
ALTER TABLE run ADD COLUMN upstream_when TEXT;

-- 1: other runs wait for it, so its end looks for them.
ALTER TABLE run ADD COLUMN feeds INTEGER NOT NULL DEFAULT 0;

-- Which error buried it: equal for errors that differ in numbers and names only.
ALTER TABLE run ADD COLUMN fingerprint TEXT;

-- How far the attempt under way is, as JSON.
ALTER TABLE run ADD COLUMN progress TEXT;

DROP INDEX run_waiting;

CREATE INDEX run_waiting ON run (job_id, slot_at) WHERE status = 'pending' AND waits = 'overlap';

-- What waits for a place under a limit of its job, in the order it is served.
CREATE INDEX run_parked ON run (job_id, limit_group, rank, id) WHERE status = 'pending' AND waits = 'limit';

-- What holds a place under a limit: the count is made of living claims, so that no crash can leak a place.
CREATE INDEX run_limited ON run (job_id, limit_group) WHERE claim_id IS NOT NULL AND limit_group IS NOT NULL;

CREATE UNIQUE INDEX run_unique ON run (job_id, unique_key) WHERE unique_key IS NOT NULL AND finished_at IS NULL;

CREATE INDEX run_flow ON run (flow_id) WHERE flow_id IS NOT NULL;

-- Which runs a run waits for: the join is made of these rows, never of a counter.
CREATE TABLE run_need (
    run_id TEXT NOT NULL,
    needs TEXT NOT NULL,
    PRIMARY KEY (run_id, needs)
);

CREATE INDEX run_need_needs ON run_need (needs);

-- One row per job and group with a limit: whoever decides about the group holds its row.
CREATE TABLE limit_group (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- Starts under a rate: those that were, and those that are promised.
CREATE TABLE rate_start (
    job_id TEXT NOT NULL,
    limit_group TEXT NOT NULL,
    at BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    token BIGINT NOT NULL,
    started INTEGER NOT NULL,
    PRIMARY KEY (job_id, limit_group, at, run_id, token)
);

-- Which schedule a job had when; a job that is switched off has none.
CREATE TABLE schedule_span (
    job_id TEXT NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    schedule TEXT NOT NULL,
    PRIMARY KEY (job_id, since)
)
