import BrokerAPI
import BrokerSocket

extension Doctor {
  /// The socket that `LoadCredential=` of other units reads; nil: where it would be is not known.
  func credentials(_ choice: SocketChoice) -> DoctorReport.Item? {
    guard let instance = instance(of: choice.path) else { return nil }
    let path = choice.path.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/credentials.sock"
    switch machine.look(path) {
    case .found(let file) where file.kind == .socket:
      return DoctorReport.Item("credentials", .ok, "\(path), mode \(file.modeText)")
    case .found, .absent:
      return DoctorReport.Item(
        "credentials", .warning, "there is no socket at \(path): units cannot load tokens (LoadCredential=)",
        hint: "\(shell.terminal.services.restart(instance)) Its log names the reason.")
    case .hidden: return nil
    }
  }
}
