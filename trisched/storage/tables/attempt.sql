-- of_run --
SELECT {columns} FROM attempt WHERE run_id = :run_id ORDER BY token, ended_at

-- add --
INSERT INTO attempt ({columns}) VALUES (:run_id, :token, :claim_id, :number, :node_id, :started_at, :ended_at,
    :outcome, :effective, :exit_code, :error_type, :error, :traceback, :result)
ON CONFLICT DO NOTHING

-- outcome_of --
SELECT outcome FROM attempt WHERE run_id = :run_id AND token = :token AND claim_id = :claim_id AND effective = 1

-- of_runs --
SELECT {columns} FROM attempt WHERE run_id {in:ids} ORDER BY started_at DESC

-- add_output --
INSERT INTO output (run_id, token, chunk, lines) VALUES (:run_id, :token, :chunk, :lines) ON CONFLICT DO NOTHING

-- claims_of --
SELECT run_id, claim_id FROM attempt WHERE run_id {in:ids}

-- put_latest --
-- The lines that stand at the end of an output that is too long to be stored as it comes; replaced again and again.
INSERT INTO output (run_id, token, chunk, lines) VALUES (:run_id, :token, :chunk, :lines)
ON CONFLICT (run_id, token, chunk) DO UPDATE SET lines = excluded.lines

-- output_of --
SELECT token, chunk, lines FROM output WHERE run_id = :run_id AND token = :token ORDER BY chunk
