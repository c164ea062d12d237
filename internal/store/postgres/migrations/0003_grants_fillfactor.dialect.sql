-- PostgreSQL writes a changed row into the free space of its page, if there is
-- some, and then no index has to change (HOT).
ALTER TABLE grants SET (fillfactor = 80)
