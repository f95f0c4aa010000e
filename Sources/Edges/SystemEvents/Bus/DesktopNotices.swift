import CSystemd
import Dispatch

/// Notices on the user's desktop (Desktop Notifications Specification 1.2, `org.freedesktop.Notifications.Notify`).
public final class DesktopNotices: Sendable {
  private static let service = "org.freedesktop.Notifications"
  private static let path = "/org/freedesktop/Notifications"
  /// The server decides how long it shows one.
  private static let standardTime: Int32 = -1

  private let queue = DispatchQueue(label: "grantd.notices")

  public init() {}

  /// Shows a notice. A desktop that does not answer within seconds, or is not there, shows none.
  ///
  /// - Parameters:
  ///   - body: without markup.
  ///   - shown: called once, with whether the server took it.
  public func show(_ title: String, _ body: String, shown: @escaping @Sendable (Bool) -> Void) {
    queue.async {
      // Notices are rare: a connection is not kept for them.
      let reply = MessageBus.session()?.call(Self.service, Self.path, Self.service, "Notify") { message in
        message.append("grantd") && message.append(UInt32(0)) && message.append("dialog-password")
          && message.append(title) && message.append(Self.escaped(body)) && message.appendEmpty(arrayOf: "s")
          && message.appendEmpty(arrayOf: "{sv}") && message.append(Self.standardTime)
      }
      shown(reply != nil)
    }
  }

  /// A body may have markup.
  static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
  }
}
