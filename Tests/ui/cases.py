"""The cases, by the name that the command takes."""

import attacks
import views

CASES = attacks.CASES | views.CASES
