import CLinux
import Glibc

/// A thread outside of Swift's pool, whose threads must not wait.
final class OwnThread {
  private let name: String
  private let body: () -> Void

  private init(_ name: String, _ body: @escaping () -> Void) {
    self.name = name
    self.body = body
  }

  /// - Parameter name: 15 bytes at most.
  /// - Returns: the error of pthread_create(3).
  static func start(_ name: String, _ body: sending @escaping () -> Void) -> Int32 {
    let this = Unmanaged.passRetained(OwnThread(name, body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { pointer in
        guard let pointer else { return nil }
        let this = Unmanaged<OwnThread>.fromOpaque(pointer).takeRetainedValue()
        _ = clinux_name_thread(this.name)
        this.body()
        return nil
      }, this.toOpaque())
    if code == 0 { pthread_detach(thread) } else { this.release() }
    return code
  }
}
