import Testing

@testable import CredentialHelpers

@Suite struct KubectlTests {
  private static func info(_ version: String, _ spec: String = "{\"interactive\":false}") -> [String: String] {
    ["KUBERNETES_EXEC_INFO": "{\"kind\":\"ExecCredential\",\"apiVersion\":\"\(version)\",\"spec\":\(spec)}"]
  }
  static let v1 = "client.authentication.k8s.io/v1"

  @Test("the cluster, or its extension, says which account") func requests() throws {
    let cluster =
      "{\"cluster\":{\"server\":\"https://K8s.example.com:6443/x\",\"certificate-authority-data\":\"eA==\"}}"
    #expect(
      try request(Kubectl.self, [], "", environment: Self.info(Self.v1, cluster))
        == token("https://k8s.example.com:6443/x"))
    let named = "{\"cluster\":{\"server\":\"https://k\",\"config\":{\"account\":\"ops\"}}}"
    #expect(
      try request(Kubectl.self, [], "", environment: Self.info(Self.v1, named)) == token("https://k", account: "ops"))
    #expect(try request(Kubectl.self, [], "") == .token(HelperTokenRequest(place: nil)))
    #expect(
      try request(Kubectl.self, [], "", environment: Self.info(Self.v1)) == .token(HelperTokenRequest(place: nil)))
  }

  @Test("the answer is of the version that was asked for", arguments: ["v1", "v1beta1"])
  func theAnswer(version: String) throws {
    let version = "client.authentication.k8s.io/" + version
    #expect(
      try answer(Kubectl.self, [], "", environment: Self.info(version))
        == "{\"apiVersion\":\"\(version)\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"T\","
        + "\"expirationTimestamp\":\"2026-01-01T00:59:59Z\"}}\n")
    #expect(try !answer(Kubectl.self, [], "", .init(text: "T"), environment: Self.info(version)).contains("expiration"))
  }

  @Test(
    "other versions are refused",
    arguments: [
      info("client.authentication.k8s.io/v1alpha1"), info("client.authentication.k8s.io/v2"), info("v1"),
      ["KUBERNETES_EXEC_INFO": "{"], ["KUBERNETES_EXEC_INFO": "[]"], ["KUBERNETES_EXEC_INFO": "{\"kind\":\"x\"}"],
    ])
  func otherVersions(environment: [String: String]) {
    #expect(throws: Malformed.self) { try request(Kubectl.self, [], "", environment: environment) }
  }

  @Test("no account is a failure with its reason") func notFound() {
    let reply = Kubectl.notFound(Invocation(arguments: []))
    #expect(reply.status == 1 && reply.out.isEmpty && reply.err?.contains("--account") == true)
  }

  @Test(
    "times are those of RFC 3339",
    arguments: [
      (0, "1970-01-01T00:00:00Z"), (951_782_400, "2000-02-29T00:00:00Z"), (1_709_251_199, "2024-02-29T23:59:59Z"),
      (4_107_542_400, "2100-03-01T00:00:00Z"), (1_767_225_600, "2026-01-01T00:00:00Z"), (-5, "1970-01-01T00:00:00Z"),
      (.max, "9999-12-31T23:59:59Z"),
    ] as [(Int64, String)])
  func times(seconds: Int64, text: String) {
    #expect(InternetTime.text(seconds) == text)
  }
}
