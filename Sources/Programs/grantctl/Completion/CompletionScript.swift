import ArgumentParser
import BrokerAPI

/// The completion scripts for bash, zsh and fish, from the declarations of the commands. Names of accounts and the like come
/// from ``CompletionNames`` at the time of the completion.
struct CompletionScript {
  /// A command; its path is the rest of the command line after `grantctl`.
  private struct Command {
    var path: String
    var children: [String]
    var options: [String]
    /// The kinds of its positional arguments.
    var positions: [String]
  }

  /// Kinds of option values, by the option's name. Others are files by their value's name, or are not completed.
  private static let valueKinds = [
    "--provider": "providers", "--account": "accounts", "--actor": "accounts", "--unit": "units",
    "--user-unit": "user-units", "--event": "events", "--method": "methods",
    "--state": "=" + AccountState.allCases.map(\.rawValue).joined(separator: " "),
    "--action": "=" + AuditAction.allCases.map(\.rawValue).joined(separator: " "), "--qr": "=never auto always",
  ]
  private static let positionKinds = [
    "account": "accounts", "provider": "providers", "provider|account": "subjects", "tool": "tools",
    "mechanism": "=xoauth2 oauthbearer", "file": "file",
  ]

  private var commands: [Command] = []
  private var values: [String: String] = [:]

  init() {
    guard let help = try? JSON.parse(Array(Grantctl._dumpHelp().utf8)) else { return }
    add(help["command"] ?? .null, [])
    // `login list` and its like are declared as commands of the root.
    for command in commands where command.path.contains(" ") {
      let words = command.path.split(separator: " ").map(String.init)
      let parent = words.dropLast().joined(separator: " ")
      for index in commands.indices where commands[index].path == parent {
        if !commands[index].children.contains(words[words.count - 1]) {
          commands[index].children.append(words[words.count - 1])
        }
      }
    }
  }

  private mutating func add(_ command: JSON, _ path: [String]) {
    let children = (command["subcommands"]?.array ?? []).filter { child in
      child["shouldDisplay"] != .bool(false) && child["commandName"]?.string != "help"
    }
    var options: [String] = []
    var positions: [String] = []
    for argument in command["arguments"]?.array ?? [] where argument["shouldDisplay"] != .bool(false) {
      let names = (argument["names"]?.array ?? []).compactMap { name in
        name["kind"]?.string == "long" ? name["name"]?.string.map { "--" + $0 } : nil
      }
      options += names
      let value = argument["valueName"]?.string ?? ""
      switch argument["kind"]?.string {
      case "option":
        for name in names {
          values[name] = Self.valueKinds[name] ?? (["path", "file"].contains(value) ? "file" : "-")
        }
      case "positional": positions.append(Self.kind(of: value, in: path))
      default: break
      }
    }
    commands.append(
      Command(
        path: path.joined(separator: " "),
        children: children.compactMap { $0["commandName"]?.string }.filter { !$0.contains(" ") }, options: options,
        positions: positions))
    for child in children { add(child, path + [child["commandName"]?.string ?? ""]) }
  }

  private static func kind(of value: String, in path: [String]) -> String {
    switch (path.first ?? "", value) {
    case ("approve", "id"): "releases"
    case (let name, "id") where name.hasPrefix("login"): "logins"
    case ("call", "method"): "methods"
    case ("call", "params"), ("call", "json"): "params"
    case ("provider", "provider"), (_, "provider"): "providers"
    default: positionKinds[value] ?? "-"
    }
  }

  // MARK: The scripts

  /// Nil: another shell.
  func text(for shell: String) -> String? {
    switch shell {
    case "bash": Self.shebang + functions + Self.bash
    case "zsh": "#compdef grantctl\n" + functions + Self.zsh
    case "fish":
      "set -g __grantctl_functions '" + functions.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'\n"
        + Self.fish
    default: nil
    }
  }

  /// In POSIX sh, so that all three shells use them. Each writes its result to `reply`: a subshell would take longer.
  private var functions: String {
    func cases(_ rows: [(String, String)]) -> String {
      rows.map { "    '\($0)') reply='\($1)' ;;" }.joined(separator: "\n")
    }
    let positions = commands.flatMap { command in
      command.positions.enumerated().map { ("\(command.path):\($0)", $1) }
    }
    return """
      # sh, not prose (words: ok)
      _grantctl_children() {
        case "$1" in
      \(cases(commands.filter { !$0.children.isEmpty }.map { ($0.path, $0.children.joined(separator: " ")) }))
          *) reply= ;;
        esac
      }
      _grantctl_options() {
        case "$1" in
      \(cases(commands.map { ($0.path, $0.options.joined(separator: " ")) }))
          *) reply= ;;
        esac
      }
      _grantctl_position() {
        case "$1" in
      \(cases(positions))
          *) reply=- ;;
        esac
      }
      _grantctl_value() {
        case "$1" in
      \(cases(values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }))
          *) reply= ;;
        esac
      }
      \(Self.candidates)

      """
  }

  private static let shebang = "# bash completion for grantctl\n"

  /// Prints a candidate on each line: `_grantctl_candidates PROGRAM WORD… CURRENT`. A variable `path` would be PATH in zsh.
  private static let candidates = #"""
    # sh, not prose (words: ok)
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
    """#

  private static let bash = #"""
    # sh, not prose (words: ok)
    _grantctl() {
      local IFS=$' \t\n' program route position broker socket valued word reply name line current=$2
      COMPREPLY=()
      while IFS= read -r line; do
        if [[ "$line" == "$current"* ]]; then COMPREPLY+=("$(printf %q "$line")"); fi
      done < <(_grantctl_candidates "$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$current")
    }
    complete -o bashdefault -o default -F _grantctl grantctl

    """#

  private static let zsh = #"""
    # sh, not prose (words: ok)
    _grantctl() {
      local -a found given
      given=("${words[1]}" "${(@)words[2,CURRENT-1]}" "${words[CURRENT]}")
      found=("${(@f)$(emulate sh; _grantctl_candidates "${given[@]}")}")
      found=("${(@)found:#}")
      if (( $#found )); then compadd -- "${found[@]}"; else _files; fi
    }
    if [ "$funcstack[1]" = "_grantctl" ]; then _grantctl "$@"; else compdef _grantctl grantctl; fi

    """#

  private static let fish = #"""
    function __grantctl_candidates
      set -l words (commandline -opc)
      sh -c "$__grantctl_functions"' _grantctl_candidates "$@"' sh $words (commandline -ct)
    end
    complete -c grantctl -a '(__grantctl_candidates)'

    """#
}
