import Broker
import CLibpq
import FoundationEssentials
import Glibc
import OAuth

/// What is connected to, with this program's rules: no connection to another host without a verified certificate.
struct Target: Sendable {
  private static let connectSeconds = 5

  private let connection: String
  private let password: Secret?
  private let overrides: [String: String]
  /// For people.
  let location: String

  /// Reads the connection string and the service file; nothing is sent.
  init(_ connection: String, password: Secret?) throws(StoreError) {
    if let problem = clibpq_load() {
      throw .shared(.init(.library, "PostgreSQL", String(cString: problem)))
    }
    let given = try Self.parse(connection)
    guard given["password"] == nil else {
      throw .shared(.init(.settings, "PostgreSQL", "connection contains a password: it belongs into password_file"))
    }
    let options = try Self.effective(connection)
    self.connection = connection
    self.password = password
    let host = options["host"] ?? options["hostaddr"] ?? ""
    location = "postgresql://\(host.hasPrefix("/") ? "" : host)/\(options["dbname"] ?? "")"
    // Without a host libpq uses a socket.
    let isLocal =
      options["hostaddr"] == nil && host.split(separator: ",").allSatisfy { $0.hasPrefix("/") || $0.hasPrefix("@") }
    var overrides = [
      "client_encoding": "UTF8", "keepalives": "1", "keepalives_idle": "10", "keepalives_interval": "5",
      "keepalives_count": "3", "tcp_user_timeout": "15000", "connect_timeout": "\(Self.connectSeconds)",
      "application_name": "grantd", "target_session_attrs": "read-write",
    ]
    if given["gssencmode"] == nil { overrides["gssencmode"] = "disable" }
    if !isLocal { try Self.demandCertificate(options, isGiven: given["sslmode"] != nil, &overrides, location) }
    self.overrides = overrides
  }

  private static func demandCertificate(
    _ options: [String: String], isGiven: Bool, _ overrides: inout [String: String], _ location: String
  ) throws(StoreError) {
    let mode = options["sslmode"] ?? "prefer"
    // "prefer" is libpq's default.
    if mode != "verify-full" {
      guard mode == "prefer", !isGiven else {
        throw .shared(
          .init(
            .settings, location,
            "sslmode=\(mode) does not verify the server: remove it, or set it to verify-full with sslrootcert"))
      }
      overrides["sslmode"] = "verify-full"
    }
    let authorities = "/etc/ssl/certs/ca-certificates.crt"
    if options["sslrootcert"] == nil, access(authorities, R_OK) == 0 { overrides["sslrootcert"] = authorities }
  }

  /// Begins to connect; nil: there is no memory.
  func start() -> OpaquePointer? {
    var values = overrides
    // Exposed for libpq.
    if let password { values["password"] = password.exposed }
    return Self.start(connection, values)
  }

  private static func start(_ connection: String, _ others: [String: String]) -> OpaquePointer? {
    let pairs = [("dbname", connection)] + others.sorted { $0.key < $1.key }
    let keywords = pairs.map { strdup($0.0) }
    let values = pairs.map { strdup($0.1) }
    defer {
      for text in values {
        if let text { explicit_bzero(text, strlen(text)) }
        free(text)
      }
      for text in keywords { free(text) }
    }
    return clibpq_start(
      keywords.map { $0.map { UnsafePointer($0) } } + [nil], values.map { $0.map { UnsafePointer($0) } } + [nil])
  }

  private static func parse(_ text: String) throws(StoreError) -> [String: String] {
    var message: UnsafeMutablePointer<CChar>?
    guard let options = clibpq_parse(text, &message) else {
      let detail = message.map { String(cString: $0) } ?? "out of memory"
      clibpq_free(message)
      throw .shared(.init(.settings, "PostgreSQL", "connection: \(detail.filter { !$0.isNewline })"))
    }
    return read(options)
  }

  /// With the service file, the environment and libpq's defaults. The port 0 keeps libpq from connecting.
  private static func effective(_ text: String) throws(StoreError) -> [String: String] {
    guard let connection = start(text, ["port": "0"]) else {
      throw .shared(.init(.settings, "PostgreSQL", "out of memory"))
    }
    defer { clibpq_finish(connection) }
    let error = String(cString: clibpq_error(connection)).filter { !$0.isNewline }
    guard error.contains("port"), let options = clibpq_options(connection) else {
      throw .shared(.init(.settings, "PostgreSQL", "connection: \(error)"))
    }
    return read(options)
  }

  /// Frees the options.
  private static func read(_ options: UnsafeMutablePointer<PQconninfoOption>) -> [String: String] {
    defer { clibpq_free_options(options) }
    var found: [String: String] = [:]
    var option = options
    while let keyword = option.pointee.keyword {
      if let value = option.pointee.val, value.pointee != 0 { found[String(cString: keyword)] = String(cString: value) }
      option += 1
    }
    return found
  }
}
