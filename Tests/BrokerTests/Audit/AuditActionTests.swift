import BrokerAPI
import Testing

@testable import Broker

@Suite struct AuditActionTests {
  /// What is in none changes nothing and uses no token, or is recorded where it takes effect.
  private static let expected: [AuditAction: [String]] = [
    .release: ["token.exchange", "token.get"],
    .use: [
      "account.refresh", "account.sessions", "account.userinfo", "dpop.proof", "request.send", "token.introspect",
      "token.report_rejected",
    ],
    .login: ["account.import", "login.cancel", "login.continue", "login.password", "login.probe", "login.start"],
    .logout: ["account.end_session", "account.logout"],
    .policy: ["broker.reload"],
    .admin: [
      "broker.lock", "broker.unlock",
      "provider.register", "provider.unregister", "resource.add", "resource.discover", "store.backup",
      "store.repair", "store.restore",
      "store.restore_apply",
      "store.rotate_key",
    ],
  ]

  @Test("Each method that releases or uses a token, signs in or out, or changes the broker is recorded as that")
  func actions() {
    var found: [AuditAction: [String]] = [:]
    for method in Methods.all {
      if let action = AuditLog.auditAction(of: method) { found[action, default: []].append(method.name) }
    }
    #expect(found.mapValues { $0.sorted() } == Self.expected)
  }

  @Test("A refused look is not recorded as an administrator's change")
  func refusals() {
    let looks = [
      "account.get", "account.list", "audit.list", "broker.status", "policy.explain", "policy.rules", "release.list",
    ]
    for method in Methods.all {
      let action = AuditLog.refusalAction(of: method)
      if looks.contains(method.name) { #expect(action == .observe, "\(method.name)") }
      if let own = AuditLog.auditAction(of: method) { #expect(action == own, "\(method.name)") }
      if action == .admin { #expect(method.access == .manage, "\(method.name)") }
    }
  }

  @Test("No method gets at a token unseen")
  func releases() {
    for method in Methods.all where method is any TokenRelease.Type || method.access == .use {
      #expect([.release, .use, .logout].contains(AuditLog.auditAction(of: method)), "\(method.name)")
    }
  }
}
