-- Publishes data with a lock, or removes it. A user's guard does not prevent that.
--
--   Input    its_data: JSON in UTF-8; '' for none
--   Output   the operation's entry of "step"
CREATE OR REPLACE FUNCTION web_locks.publish_one(me bigint, reference bigint, its_data bytea)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  UPDATE web_locks.request SET data = nullif(its_data, '')
    WHERE session = me AND ref = reference AND token IS NOT NULL;
  RETURN CASE WHEN FOUND THEN -4 ELSE -6 END;
END $$;
