-- What is put here becomes messages at the end of a queue: its counters, the ids to remember if there
-- are any, contents and rows, all in one step. Such a step is a whole commit, which lets go of the
-- interpreter lock once and not after each of its parts (decisions/0027). Only this connection has it.
CREATE TEMP VIEW arriving AS
SELECT 0 AS queue, 0 AS first, 0 AS now, 0 AS count, 0 AS bytes, NULL AS digests, NULL AS contents;

CREATE TEMP TRIGGER arrive INSTEAD OF INSERT ON arriving BEGIN
    UPDATE queue
       SET next_counter = next_counter + NEW.count, message_count = message_count + NEW.count,
           message_bytes = message_bytes + NEW.bytes
     WHERE number = NEW.queue;
    INSERT INTO seen (queue, seen_at, digests)
    SELECT NEW.queue, NEW.now, NEW.digests WHERE NEW.digests IS NOT NULL;
    INSERT INTO body (id, content)
    SELECT NEW.first + rowid - 1, value FROM carray(NEW.contents);
    INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size)
    SELECT NEW.first + rowid - 1, NEW.queue, 0, 0, NEW.now, NEW.first + rowid - 1, length(value)
      FROM carray(NEW.contents);
END;
