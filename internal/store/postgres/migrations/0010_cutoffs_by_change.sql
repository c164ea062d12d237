CREATE INDEX IF NOT EXISTS cutoffs_by_change ON cutoffs (changed)
