import FoundationEssentials
import Glibc

/// The system's resolver, in the order of RFC 6724.
enum SystemResolver {
  static func addresses(of host: String) -> NameLookups.Answer {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var first: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, nil, &hints, &first)
    guard code == 0 else {
      return .failure(.init(message: "the name cannot be resolved (\(String(cString: gai_strerror(code))))"))
    }
    defer { freeaddrinfo(first) }
    var found: [String] = []
    var next = first
    while let info = next {
      next = info.pointee.ai_next
      guard let text = text(info.pointee), !found.contains(text) else { continue }
      found.append(text)
    }
    return found.isEmpty ? .failure(.init(message: "the name has no address")) : .success(found)
  }

  /// An address of one interface alone (`fe80::1%eth0`) is none of a provider's.
  private static func text(_ info: addrinfo) -> String? {
    var buffer = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    let length = socklen_t(buffer.count)
    guard getnameinfo(info.ai_addr, info.ai_addrlen, &buffer, length, nil, 0, NI_NUMERICHOST) == 0 else { return nil }
    let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return text.contains("%") ? nil : text
  }

  /// Whether it is an address already.
  static func isAddress(_ host: String) -> Bool {
    var (four, six) = (in_addr(), in6_addr())
    return inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, host, &six) == 1
  }
}

/// hosts(5).
enum HostsFile {
  /// Bytes that are read.
  private static let most = 1 << 20

  static func addresses(of host: String, in path: String = "/etc/hosts") -> NameLookups.Answer {
    guard let file = fopen(path, "re") else { return .failure(.init(message: "there is no \(path)")) }
    defer { fclose(file) }
    let bytes = [UInt8](unsafeUninitializedCapacity: most) { $1 = fread($0.baseAddress!, 1, most, file) }
    let found = String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line -> String? in
      let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace).map(String.init)
      guard let address = words.first, SystemResolver.isAddress(address),
        words.dropFirst().contains(where: { $0.lowercased() == host.lowercased() })
      else { return nil }
      return address
    }
    return found.isEmpty ? .failure(.init(message: "the name is not in \(path)")) : .success(found)
  }
}
