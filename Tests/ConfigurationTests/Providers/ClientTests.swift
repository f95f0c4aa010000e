import Foundation
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("How the client proves itself")
struct ClientTests {
  private let fixture: Fixture

  init() throws {
    fixture = try Fixture()
    try fixture.write("secret", "s3cret", mode: 0o600)
    try fixture.write("key", TestKey.pem, mode: 0o600)
    try fixture.write("jwk", TestKey.jwk, mode: 0o600)
    try fixture.write("cert", TestKey.certificate)
    try fixture.write("binary", TestKey.pem + "\u{1}", mode: 0o600)
  }

  private func text(_ keys: String) -> String { Fixture.provider + keys.replacing("DIR", with: fixture.folder) }

  private func provider(_ keys: String) throws -> ProviderSettings {
    try #require(try fixture.load(text(keys)).providers.first)
  }

  private func key(_ algorithm: SignatureAlgorithm? = nil, kid: String? = nil) throws -> SigningKey {
    try SigningKey.parse(Secret(TestKey.pem), algorithm: algorithm, kid: kid)
  }

  @Test("A key alone means private_key_jwt; a PEM has the id that is written, a JWK its own")
  func privateKey() throws {
    #expect(
      try provider("client_key_file = \"DIR/key\"").client.credential
        == .assertion(key: try key(), audience: .tokenEndpoint))
    #expect(
      try provider(
        """
        client_key_file = "DIR/key"
        client_key_id = "k"
        client_assertion_algorithm = "ES256"
        client_assertion_audience = "issuer"
        token_endpoint_auth_method = "private_key_jwt"
        """
      ).client.credential == .assertion(key: try key(.es256, kid: "k"), audience: .issuer))
    let own = try provider("client_key_file = \"DIR/jwk\"\nclient_assertion_audience = \"https://a.example/x\"").client
      .credential
    #expect(own == .assertion(key: try key(kid: "of the JWK"), audience: .fixed("https://a.example/x")))
    let each = try provider("client_key_file = \"DIR/jwk\"\nclient_assertion_audience = \"endpoint\"").client.credential
    #expect(each == .assertion(key: try key(kid: "of the JWK"), audience: .endpoint))
    #expect(own.methods == ["private_key_jwt"])
  }

  @Test(
    "A secret signs with HS256, or as it is written (OpenID Connect Core §9)",
    arguments: [("", SignatureAlgorithm.hs256), ("\nclient_assertion_algorithm = \"HS512\"", .hs512)])
  func secretJWT(more: String, algorithm: SignatureAlgorithm) throws {
    let found = try provider(
      "client_secret_file = \"DIR/secret\"\ntoken_endpoint_auth_method = \"client_secret_jwt\"" + more)
    let key = try SigningKey.shared(Secret("s3cret"), algorithm: algorithm)
    #expect(found.client.credential == .assertion(key: key, audience: .tokenEndpoint))
    #expect(found.client.credential.methods == ["client_secret_jwt"])
    // The key of HS256 ID tokens.
    #expect(found.client.secret == Secret("s3cret"))
  }

  @Test("A certificate alone means tls_client_auth; beside a secret it only secures the connection")
  func certificate() throws {
    let files = "tls_ca_file = \"DIR/cert\"\ntls_certificate_file = \"DIR/cert\"\ntls_key_file = \"DIR/key\""
    let tls = TLSChoice(
      authorities: Data(TestKey.certificate.utf8), certificates: Data(TestKey.certificate.utf8),
      key: Secret(TestKey.pem.trimmingCharacters(in: .newlines)))
    #expect(try provider(files).client.credential == .mutualTLS)
    #expect(try provider(files).server.tls == tls)
    #expect(
      try provider(files + "\ntoken_endpoint_auth_method = \"self_signed_tls_client_auth\"").client.credential
        == .mutualTLS)
    let both = try provider(files + "\nclient_secret_file = \"DIR/secret\"")
    #expect(both.client.credential == .basic(secret: Secret("s3cret"), encoding: .form))
    #expect(both.server.tls == tls)
    #expect(try provider("tls_ca_file = \"DIR/cert\"").client.credential == .none)
    #expect(
      try provider("tls_ca_file = \"DIR/cert\"").server.tls == TLSChoice(authorities: Data(TestKey.certificate.utf8)))
  }

  @Test("Requests are signed with the client's key, its secret, or a key of their own (RFC 9101)")
  func requestObjects() throws {
    #expect(try provider("client_key_file = \"DIR/key\"").authorization.requestObjectKey == nil)
    #expect(
      try provider("request_object = true\nclient_key_file = \"DIR/key\"").authorization.requestObjectKey == (try key())
    )
    let own = try provider(
      """
      request_object = true
      client_secret_file = "DIR/secret"
      request_object_key_file = "DIR/jwk"
      request_object_key_id = "mine"
      """)
    #expect(own.authorization.requestObjectKey == (try key(kid: "mine")))
    #expect(own.client.credential == .basic(secret: Secret("s3cret"), encoding: .form))
    let signed = "token_endpoint_auth_method = \"client_secret_jwt\"\nclient_secret_file = \"DIR/secret\""
    #expect(
      try provider("request_object = true\n" + signed).authorization.requestObjectKey
        == (try SigningKey.shared(Secret("s3cret"), algorithm: .hs256)))
    let unauthenticated = "token_endpoint_auth_method = \"none\"\nclient_key_file = \"DIR/key\"\nrequest_object = true"
    #expect(try provider(unauthenticated).client.credential == .none)
  }

  @Test("Whom an assertion is for is known with the metadata (RFC 7523 §3)")
  func audiences() throws {
    let key = try key()
    let endpoint = try #require(URL(string: "https://login.example.com/token"))
    let cases: [(ClientAssertion.Audience, URL?, String?)] = [
      (.tokenEndpoint, endpoint, "https://login.example.com/token"), (.tokenEndpoint, nil, "https://issuer.example"),
      (.issuer, endpoint, "https://issuer.example"), (.fixed("urn:x"), endpoint, "urn:x"),
      // The endpoint that is asked, which only the request knows.
      (.endpoint, endpoint, nil),
    ]
    for (audience, tokenEndpoint, text) in cases {
      let credential = ClientCredential.assertion(key: key, audience: audience)
      #expect(
        credential.authentication(issuer: "https://issuer.example", tokenEndpoint: tokenEndpoint)
          == .assertion(key: key, audience: text))
    }
    #expect(ClientCredential.mutualTLS.authentication(issuer: "i", tokenEndpoint: endpoint) == .mutualTLS)
    #expect(ClientCredential.mutualTLS.methods == ["tls_client_auth", "self_signed_tls_client_auth"])
  }

  private static let title = "[provider.work]"
  static let mistakes: [(keys: String, complaint: String)] = [
    (
      "token_endpoint_auth_method = \"private_key_jwt\"",
      "4: \"token_endpoint_auth_method\" in \(title) is \"private_key_jwt\", and there is no client key: add "
        + "client_key_file or client_key_credential"
    ),
    (
      "token_endpoint_auth_method = \"client_secret_jwt\"",
      "4: \"token_endpoint_auth_method\" in \(title) is \"client_secret_jwt\", and there is no client secret: add "
        + "client_secret_file or client_secret_credential"
    ),
    (
      "token_endpoint_auth_method = \"tls_client_auth\"",
      "4: \"token_endpoint_auth_method\" in \(title) is \"tls_client_auth\", and there is no certificate: add "
        + "tls_certificate_file and tls_key_file"
    ),
    (
      "client_secret_file = \"DIR/secret\"\nclient_key_file = \"DIR/key\"",
      "5: \(title) has a client key, and \"token_endpoint_auth_method\" is \"client_secret_basic\": write "
        + "private_key_jwt there, or remove the key"
    ),
    (
      "client_secret_file = \"DIR/secret\"\nclient_key_file = \"DIR/key\"\n"
        + "token_endpoint_auth_method = \"private_key_jwt\"",
      "6: \(title) has a client secret, and \"token_endpoint_auth_method\" is \"private_key_jwt\": remove one of them"
    ),
    (
      "client_key_file = \"DIR/key\"\nclient_assertion_algorithm = \"RS256\"",
      "4: \"client_key_file\" in \(title): RS256 cannot be signed with"
    ),
    (
      "client_key_file = \"DIR/secret\"",
      "4: \"client_key_file\" in \(title): the key cannot be read: it has no line -----BEGIN PRIVATE KEY-----"
    ),
    (
      "client_secret_file = \"DIR/secret\"\ntoken_endpoint_auth_method = \"client_secret_jwt\"\n"
        + "client_assertion_algorithm = \"ES256\"",
      "6: \"client_assertion_algorithm\" in \(title) is \"ES256\", and a client secret signs with HS256, HS384 or HS512"
    ),
    (
      "client_key_id = \"k\"",
      "4: \"client_key_id\" in \(title) has no use without client_key_file or client_key_credential: add that, or "
        + "remove this"
    ),
    (
      "client_assertion_audience = \"issuer\"",
      "4: \"client_assertion_audience\" in \(title) has no use without private_key_jwt or client_secret_jwt: add that, "
        + "or remove this"
    ),
    (
      "request_object = true",
      "4: \"request_object\" in \(title) needs a key to sign with: add request_object_key_file or client_key_file"
    ),
    (
      "request_object_key_file = \"DIR/key\"",
      "4: \"request_object_key_file\" in \(title) has no use without request_object = true: add that, or remove this"
    ),
    (
      "tls_certificate_file = \"DIR/cert\"",
      "4: \(title) has a certificate and no key for it: add tls_key_file or tls_key_credential"
    ),
    (
      "tls_key_file = \"DIR/key\"",
      "4: \(title) has the key of a certificate and no certificate: add tls_certificate_file"
    ),
    ("tls_ca_file = \"DIR/key\"", "4: \"tls_ca_file\" in \(title): key has no certificate in PEM in it"),
    ("client_key_file = \"DIR/binary\"", "4: \"client_key_file\" in \(title): binary has control characters"),
    ("tls_ca_file = \"DIR/none\"", "4: \"tls_ca_file\" in \(title): none does not exist"),
    (
      "tls_certificate_file = \"DIR/cert\"\ntls_key_file = \"DIR/secret\"",
      "5: the key of tls_certificate_file in \(title) is not a private key in PEM"
    ),
  ]

  @Test("What does not hold together is said with its line, and no word of a secret", arguments: mistakes)
  func says(keys: String, complaint: String) throws {
    let found = try fixture.complaint(text(keys))
    #expect(found.hasPrefix("grantd.toml:\(complaint)"), "\(found)")
    #expect(found.split(separator: "\n").count == 1, "\(found)")
    #expect(!found.contains("s3cret"))
  }

  @Test("Keys are read from files that nobody else can read, certificates from files that not everybody can write")
  func modes() throws {
    try fixture.write("open", TestKey.pem, mode: 0o644)
    #expect(
      try fixture.complaint(text("client_key_file = \"DIR/open\""))
        == "grantd.toml:4: \"client_key_file\" in [provider.work]: open can be read or written by other users: run chmod "
        + "600 on it")
    try fixture.write("open", TestKey.certificate, mode: 0o666)
    #expect(
      try fixture.complaint(text("tls_ca_file = \"DIR/open\""))
        == "grantd.toml:4: \"tls_ca_file\" in [provider.work]: open can be written by all users: run chmod o-w on it")
  }

  @Test("No key is shown by what holds it")
  func redaction() throws {
    let settings = try fixture.load(
      text("client_key_file = \"DIR/key\"\ntls_certificate_file = \"DIR/cert\"\ntls_key_file = \"DIR/key\""))
    var dumped = ""
    dump(settings, to: &dumped)
    for shown in [dumped, "\(settings)", String(reflecting: settings)] {
      #expect(!shown.contains(TestKey.pem.split(separator: "\n")[1]))
    }
  }
}
