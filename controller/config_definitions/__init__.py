"""What configs there are: their tables, types, values and orders, before anybody has set one."""
