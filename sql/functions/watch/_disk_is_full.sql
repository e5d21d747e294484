-- Whether the disk of this database is full. It writes 300 kB into a temporary file, because
-- nothing else tells: statements that only read go on, and so do updates in pages that have room.
-- Locks: none. Cost: the file.
create function mqpg._disk_is_full() returns boolean
language plpgsql set work_mem = '64kB' set temp_tablespaces = '' as $$
begin
    perform count(*) from generate_series(1, 10000);
    return false;
exception
    when disk_full or io_error then
        return true;
    when configuration_limit_exceeded then
        return false;    -- temp_file_limit says nothing about the disk
end
$$;
