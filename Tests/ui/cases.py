"""The cases, by the name that the command takes."""

import adding
import attacks
import callbacks
import conditions
import files
import health
import layout
import pictures
import real
import tables
import tools
import views

CASES = attacks.CASES | views.CASES | real.CASES | files.CASES | conditions.CASES | layout.CASES
CASES |= adding.CASES | callbacks.CASES | health.CASES | tables.CASES | tools.CASES | pictures.CASES
