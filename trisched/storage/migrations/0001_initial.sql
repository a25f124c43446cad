-- The first schema. Times are microseconds UTC by the database's clock; JSON is text.

CREATE TABLE cluster (
    id INTEGER PRIMARY KEY,
    leader_epoch BIGINT NOT NULL,
    leader_node TEXT,
    leader_incarnation TEXT,
    leader_until BIGINT NOT NULL
);

INSERT INTO cluster VALUES (1, 0, NULL, NULL, 0);

CREATE TABLE node (
    id TEXT PRIMARY KEY,
    incarnation TEXT NOT NULL,
    beat_nonce TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    tags TEXT NOT NULL,
    queues TEXT NOT NULL,
    tasks TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    started_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    draining_at BIGINT
);

CREATE TABLE job (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    revision INTEGER NOT NULL,
    spec TEXT NOT NULL,
    type TEXT NOT NULL,
    queue TEXT NOT NULL,
    schedule_kind TEXT NOT NULL,
    -- The first slot not handled yet, and when the scheduler must look at it (jitter, and waits after a failure).
    next_slot_at BIGINT,
    next_due_at BIGINT,
    dispatch_failures INTEGER NOT NULL,
    alarm TEXT,
    -- Why no living node can run it; kept apart, for a slot that was dispatched ends an alarm but not this.
    unrunnable TEXT,
    disabled_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);

CREATE UNIQUE INDEX job_name ON job (name) WHERE deleted_at IS NULL;

CREATE INDEX job_due ON job (next_due_at) WHERE next_due_at IS NOT NULL;

CREATE TABLE job_tag (
    job_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (tag, job_id)
);

CREATE TABLE dependency (
    job_id TEXT NOT NULL,
    needs TEXT NOT NULL,
    PRIMARY KEY (job_id, needs)
);

CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    paused_at BIGINT
);

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    job_revision INTEGER NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN
        ('pending', 'queued', 'running', 'retrying', 'completed', 'dead', 'cancelled', 'skipped', 'held')),
    priority INTEGER NOT NULL,
    rank BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    slot_at BIGINT,
    key TEXT,
    origin TEXT NOT NULL,
    parameters TEXT NOT NULL,
    overrides TEXT,
    retries INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    token BIGINT NOT NULL,
    claim_id TEXT,
    node_id TEXT,
    incarnation TEXT,
    waits TEXT,
    reason TEXT,
    cancel_requested_at BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    CHECK ((status = 'running') = (claim_id IS NOT NULL))
);

-- A slot makes at most one run, for ever.
CREATE UNIQUE INDEX run_slot ON run (job_id, slot_at) WHERE slot_at IS NOT NULL;

CREATE UNIQUE INDEX run_key ON run (job_id, key) WHERE key IS NOT NULL;

-- The line in front of the workers, in the order it is served.
CREATE INDEX run_queued ON run (queue, rank, id) WHERE status = 'queued';

-- What waits for its time.
CREATE INDEX run_due ON run (due_at) WHERE status IN ('pending', 'retrying') AND waits IS NULL;

-- What waits for an earlier run of its job, in slot order.
CREATE INDEX run_waiting ON run (job_id, slot_at) WHERE status = 'pending' AND waits IS NOT NULL;

-- What a node holds; asked when a node is lost, and for the number of active runs.
CREATE INDEX run_claimed ON run (incarnation) WHERE claim_id IS NOT NULL;

-- What of a job is not over: overlap and trigger collapse.
CREATE INDEX run_active ON run (job_id, id) WHERE finished_at IS NULL;

-- The history of a job. Apart from the active ones, so that neither making nor claiming a run writes it.
CREATE INDEX run_finished ON run (job_id, id) WHERE finished_at IS NOT NULL;

-- What needs a person.
CREATE INDEX run_attention ON run (status, id) WHERE status IN ('dead', 'held');

CREATE TABLE attempt (
    run_id TEXT NOT NULL,
    token BIGINT NOT NULL,
    claim_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    node_id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN
        ('completed', 'failed', 'timed_out', 'cancelled', 'lost', 'released')),
    -- 0: its result came after the run had been given to another; kept, and without effect.
    effective INTEGER NOT NULL,
    exit_code INTEGER,
    error_type TEXT,
    error TEXT,
    traceback TEXT,
    result TEXT,
    -- A lost attempt may still come to its end: both are kept.
    PRIMARY KEY (run_id, token, claim_id, effective)
);

CREATE TABLE output (
    run_id TEXT NOT NULL,
    token BIGINT NOT NULL,
    chunk INTEGER NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (run_id, token, chunk)
)
