import CredentialHelpers

/// Where the mapping of hosts to accounts stands.
struct HelperFiles {
  static let system = "/etc/grantd/helper.toml"

  let terminal: Terminal

  var user: String { "\(terminal.configurationFolder)/grantd/helper.toml" }

  func mapping() throws(Problem) -> Mapping {
    var files: [[Mapping.Entry]] = []
    for path in [user, Self.system] where terminal.files.exists(path) {
      switch terminal.files.text(path) {
      case .unreadable(let reason): throw Problem("\(path) cannot be read: \(reason)")
      case .text(let text, _):
        do throws(MappingFile.Fault) {
          files.append(try MappingFile.parse(text))
        } catch {
          throw Problem("\(path):\(error.line): \(error.message)")
        }
      }
    }
    return Mapping(files: files)
  }
}

extension Terminal {
  /// $XDG_CONFIG_HOME, as the XDG Base Directory Specification has it.
  var configurationFolder: String {
    if let folder = environment["XDG_CONFIG_HOME"], folder.hasPrefix("/") { return folder }
    return (environment["HOME"] ?? "") + "/.config"
  }
}
