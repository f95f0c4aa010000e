"""The cases, by the name that the command takes."""

import attacks
import pictures
import real
import views

CASES = attacks.CASES | views.CASES | real.CASES | pictures.CASES
