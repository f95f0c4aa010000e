import CLinux

/// A thread outside of Swift's pool, whose threads must not wait.
public final class OwnThread {
  private let body: () -> Void

  private init(_ body: @escaping () -> Void) { self.body = body }

  /// - Parameters:
  ///   - name: 15 bytes at most.
  ///   - stack: bytes; 0: as many as usual.
  /// - Returns: the error of pthread_create(3); 0: it runs.
  public static func start(_ name: String, stack: Int = 0, _ body: sending @escaping () -> Void) -> Int32 {
    let this = Unmanaged.passRetained(OwnThread(body))
    let code = clinux_start_thread(
      name, stack, { $0.map { Unmanaged<OwnThread>.fromOpaque($0).takeRetainedValue().body() } }, this.toOpaque())
    if code != 0 { this.release() }
    return code
  }
}
