"""From the log to tables: the fold (`fold/`), and what drives it.

worker.py    appends what is submitted and folds it once it is durable
timers.py    proposes what is due: settled tables, filled indexes, expired items
refold.py    how a partition starts; rebuild.py makes one table anew beside the live one
partition.py the seam that the server sees; local.py is a partition in this process
"""
