import CLinux

/// A thread outside of Swift's pool, whose threads must not wait.
final class OwnThread {
  private let body: () -> Void

  private init(_ body: @escaping () -> Void) { self.body = body }

  /// - Parameter name: 15 bytes at most.
  /// - Returns: the error of pthread_create(3).
  static func start(_ name: String, _ body: sending @escaping () -> Void) -> Int32 {
    let this = Unmanaged.passRetained(OwnThread(body))
    let code = clinux_start_thread(
      name, 0, { $0.map { Unmanaged<OwnThread>.fromOpaque($0).takeRetainedValue().body() } }, this.toOpaque())
    if code != 0 { this.release() }
    return code
  }
}
