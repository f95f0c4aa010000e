import Glibc
import NIOSSL
import Synchronization

/// The system's certificate authorities. Each context would parse the bundle for itself, which costs a megabyte and 10 ms;
/// parsed once, all share them.
enum SystemAuthorities {
  /// Where distributions have the bundle, and where further ones lie, each found by its name's hash when it is needed:
  /// Debian and its kin, Arch and Alpine; Fedora and its kin.
  private static let bundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]
  private static let folder = "/etc/ssl/certs"

  /// The bundle's state when it was parsed.
  struct Stamp: Equatable {
    var file: UInt64
    var size: Int64
    /// The time of its last change, as the kernel gives it. In a release build the compiler takes the members of
    /// `timespec` for those of a module that cannot be imported.
    var changed: [UInt8]
  }

  private static let parsed = Mutex<(stamp: Stamp, certificates: [NIOSSLCertificate])?>(nil)

  /// Settings that trust them. Without a bundle the library uses its own search.
  static func configuration() -> TLSConfiguration {
    var tls = TLSConfiguration.makeClientConfiguration()
    guard let certificates = certificates() else { return tls }
    guard stamp(of: folder) != nil else {
      tls.trustRoots = .certificates(certificates)
      return tls
    }
    // The library accepts the two only in this order.
    tls.trustRoots = .file(folder)
    tls.additionalTrustRoots = [.certificates(certificates)]
    return tls
  }

  /// Those of now: an update of the system's counts for the next context.
  private static func certificates() -> [NIOSSLCertificate]? {
    for bundle in bundles {
      guard let stamp = stamp(of: bundle) else { continue }
      return parsed.withLock { parsed in
        if let parsed, parsed.stamp == stamp { return parsed.certificates }
        guard let certificates = try? NIOSSLCertificate.fromPEMFile(bundle), !certificates.isEmpty else { return nil }
        parsed = (stamp, certificates)
        return certificates
      }
    }
    return nil
  }

  /// The bundle's current state; nil: none.
  static var stamp: Stamp? {
    for bundle in bundles {
      if let stamp = stamp(of: bundle) { return stamp }
    }
    return nil
  }

  private static func stamp(of path: String) -> Stamp? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    let changed = withUnsafeBytes(of: status.st_mtim) { Array($0) }
    return Stamp(file: UInt64(status.st_ino), size: Int64(status.st_size), changed: changed)
  }
}
