"""The cases, by the name that the command takes."""

import attacks
import pictures
import views

CASES = attacks.CASES | views.CASES | pictures.CASES
