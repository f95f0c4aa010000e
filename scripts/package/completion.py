"""The completion scripts for bash, zsh and fish, from the declarations of grantctl's commands. Names of accounts and the
like come from `grantctl complete-names` at the time of the completion.
"""

# Kinds of option values, by the option's name. Others are files by their value's name, or are not completed.
VALUE_KINDS = {
    "--provider": "providers", "--account": "accounts", "--actor": "accounts", "--unit": "units",
    "--user-unit": "user-units", "--event": "events", "--method": "methods", "--qr": "=never auto always"}
# The same for options whose values the methods define, by the schema's name.
SCHEMAS = {"--state": "AccountState", "--action": "AuditAction"}
POSITION_KINDS = {
    "account": "accounts", "provider": "providers", "provider|account": "subjects", "tool": "tools",
    "mechanism": "=xoauth2 oauthbearer", "file": "file"}

# Prints a candidate on each line: `_grantctl_candidates PROGRAM WORD… CURRENT`. A variable `path` would be PATH in zsh.
CANDIDATES = r"""# sh, not prose (words: ok)
_grantctl_names() {
  case "$1" in
    '='*) for name in ${1#=}; do printf '%s\n' "$name"; done ;;
    - | file | '') ;;
    params) "$program" complete-names params "$word" ;;
    *) if [ -n "$socket" ]; then "$program" complete-names "$1" --socket "$socket"
       else "$program" complete-names "$1" ${broker:+"$broker"}; fi ;;
  esac 2>/dev/null
}
_grantctl_candidates() {
  program=$1 route= position=0 broker= socket= valued= word= reply=
  shift
  while [ $# -gt 1 ]; do
    case "$1" in
      --system | --user) broker=$1 ;;
      -*)
        _grantctl_value "$1"
        if [ -n "$reply" ]; then
          if [ $# -gt 2 ]; then
            if [ "$1" = --socket ]; then socket=$2; fi
            shift
          else
            valued=$reply
          fi
        fi ;;
      *)
        _grantctl_children "$route"
        case " $reply " in
          *" $1 "*) if [ $position = 0 ]; then route="${route:+$route }$1"; fi ;;
          *) position=$((position + 1)) word=$1 ;;
        esac ;;
    esac
    shift
  done
  if [ -n "$valued" ]; then
    _grantctl_names "$valued"
    return
  fi
  case "$1" in
    -*)
      _grantctl_options "$route"
      _grantctl_names "=$reply" ;;
    *)
      if [ $position = 0 ]; then
        _grantctl_children "$route"
        _grantctl_names "=$reply"
      fi
      _grantctl_position "$route:$position"
      _grantctl_names "$reply" ;;
  esac
}
"""

BASH = r"""# sh, not prose (words: ok)
_grantctl() {
  local IFS=$' \t\n' program route position broker socket valued word reply name line current=$2
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ "$line" == "$current"* ]]; then COMPREPLY+=("$(printf %q "$line")"); fi
  done < <(_grantctl_candidates "$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current")
}
complete -o bashdefault -o default -F _grantctl grantctl
"""

ZSH = r"""# sh, not prose (words: ok)
_grantctl() {
  local -a found given
  given=("${words[1]}" "${(@)words[2,CURRENT-1]}" "${words[CURRENT]}")
  found=("${(@f)$(emulate sh; _grantctl_candidates "${given[@]}")}")
  found=("${(@)found:#}")
  if (( $#found )); then compadd -- "${found[@]}"; else _files; fi
}
if [ "$funcstack[1]" = "_grantctl" ]; then _grantctl "$@"; else compdef _grantctl grantctl; fi
"""

FISH = r"""function __grantctl_candidates
  set -l words (commandline -opc)
  sh -c "$__grantctl_functions"' _grantctl_candidates "$@"' sh $words (commandline -ct)
end
complete -c grantctl -a '(__grantctl_candidates)'
"""


class Commands:
    """A command's path is the rest of the command line after `grantctl`."""

    def __init__(self, help_of_root, schemas):
        self.children, self.options, self.positions, self.values = {}, {}, {}, {}
        self.kinds = VALUE_KINDS | {option: "=" + " ".join(schemas[name]["enum"]) for option, name in SCHEMAS.items()}
        self._add(help_of_root, [])
        # `login list` and its like are declared as commands of the root.
        for path in [path for path in self.children if " " in path]:
            parent, word = path.rsplit(" ", 1)
            if parent in self.children and word not in self.children[parent]:
                self.children[parent].append(word)

    def _add(self, command, path):
        shown = [child for child in command.get("subcommands", [])
                 if child.get("shouldDisplay", True) and child["commandName"] != "help"]
        options, positions = [], []
        for argument in command.get("arguments", []):
            if not argument.get("shouldDisplay", True):
                continue
            names = ["--" + name["name"] for name in argument.get("names", []) if name["kind"] == "long"]
            options += names
            value = argument.get("valueName", "")
            if argument["kind"] == "option":
                for name in names:
                    self.values[name] = self.kinds.get(name, "file" if value in ("path", "file") else "-")
            elif argument["kind"] == "positional":
                positions.append(kind_of(value, path))
        name = " ".join(path)
        self.children[name] = [child["commandName"] for child in shown if " " not in child["commandName"]]
        self.options[name], self.positions[name] = options, positions
        for child in shown:
            self._add(child, path + [child["commandName"]])

    def functions(self):
        """In POSIX sh, so that all three shells use them. Each writes its result to `reply`: a subshell would take longer."""
        positions = {f"{path}:{index}": kind for path, kinds in self.positions.items() for index, kind in enumerate(kinds)}
        tables = [
            ("children", {path: " ".join(names) for path, names in self.children.items() if names}, ""),
            ("options", {path: " ".join(names) for path, names in self.options.items()}, ""),
            ("position", positions, "-"), ("value", dict(sorted(self.values.items())), "")]
        return "# sh, not prose (words: ok)\n" + "".join(function(*table) for table in tables) + CANDIDATES


def function(name, rows, otherwise):
    cases = "".join(f"    '{key}') reply='{value}' ;;\n" for key, value in rows.items())
    return f'_grantctl_{name}() {{\n  case "$1" in\n{cases}    *) reply={otherwise} ;;\n  esac\n}}\n'


def kind_of(value, path):
    first = path[0] if path else ""
    if value == "id" and first == "approve":
        return "releases"
    if value == "id" and first.startswith("login"):
        return "logins"
    if first == "call" and value == "method":
        return "methods"
    if first == "call" and value in ("params", "json"):
        return "params"
    return POSITION_KINDS.get(value, "-")


def scripts(help_of_root, schemas):
    """Each script by the name of its file."""
    functions = Commands(help_of_root, schemas).functions()
    quoted = functions.replace("\\", "\\\\").replace("'", "\\'")
    return {
        "grantctl.bash": "# bash completion for grantctl\n" + functions + BASH,
        "_grantctl": "#compdef grantctl\n" + functions + ZSH,
        "grantctl.fish": f"set -g __grantctl_functions '{quoted}'\n" + FISH}
