import BrokerAPI
import BrokerSocket
import Testing

@testable import grantctl

@Suite struct TableTests {
  static let now: Int64 = 1_767_225_600

  static func account(
    _ name: String, _ state: AccountState, provider: String = "google", email: String? = "ada@example.com",
    expires: Int64? = 3599, error: AccountView.LastError? = nil
  ) -> AccountView {
    AccountView(
      account: name, provider: provider, state: state,
      identity: email.map { .init(subject: "1", issuer: nil, email: $0, name: nil, username: nil) },
      scopes: ["openid"], generation: 7, expires_at: expires.map { now + $0 }, next_refresh_at: now + 2999,
      refresh_expires_at: nil, last_refresh_at: now - 10, logged_in_at: now - 7200, last_error: error)
  }

  static let refused = AccountView.LastError(
    reason: .loginRequired,
    message: "account a-rather-long-account-name needs a login: the provider ended the grant \u{1B}[2Jand more",
    hint: "Sign in again with `grantctl login google a-rather-long-account-name`.", at: now - 180, oauth: nil)

  private func shell(_ wish: SocketChoice.Wish = .init()) -> Shell {
    Shell(terminal: Recorder().terminal(), settings: .init(wish: wish))
  }

  @Test("the status of accounts fits 80 columns, with errors below their rows") func theStatusOfAccountsFits80Columns()
  {
    let table = StatusCommand.table(
      [
        Self.account("work", .ok),
        Self.account("a-rather-long-account-name", .loginRequired, expires: -180, error: Self.refused),
      ], nil, shell())
    let text = table.lines(width: 80, colour: false).joined(separator: "\n")
    #expect(
      text == """
        ACCOUNT                     STATE           EXPIRES IN         NEXT REFRESH
        work                        ok              59 min             in 49 min
        a-rather-long-account-name  login required  expired 3 min ago  in 49 min
            account a-rather-long-account-name needs a login: the provider ended the
            grant \\u{1B}[2Jand more (3 min ago)
            Sign in again with `grantctl login google a-rather-long-account-name`.
        """)
  }

  @Test("the status names the providers where there are several, and still fits") func theStatusNamesTheProviders() {
    let table = StatusCommand.table(
      [
        Self.account("work", .ok),
        Self.account("a-rather-long-account-name", .actionRequired, provider: "microsoft-entra", expires: -180),
      ], nil, shell())
    let lines = table.lines(width: 80, colour: false)
    #expect(
      lines.joined(separator: "\n") == """
        ACCOUNT               PROVIDER  STATE            EXPIRES IN         NEXT REFRESH
        work                  google    ok               59 min             in 49 min
        a-rather-l…ount-name  micr…tra  action required  expired 3 min ago  in 49 min
        """)
  }

  @Test("the list shortens the identity first") func theListGivesWayInTheIdentity() {
    let table = ListCommand.table(
      [
        Self.account("work", .ok, email: "a.very.long.name@some.department.example.com"),
        Self.account("a-rather-long-account-name", .degraded, provider: "microsoft", email: nil, expires: nil),
      ], now: Self.now)
    let lines = table.lines(width: 80, colour: false)
    #expect(
      lines.joined(separator: "\n") == """
        ACCOUNT                     PROVIDER   STATE     IDENTITY             EXPIRES IN
        work                        google     ok        a.very.lo…ample.com  59 min
        a-rather-long-account-name  microsoft  degraded  -                    -
        """)
    #expect(lines.allSatisfy { SafeText.width($0) <= 80 })
    let wide = table.lines(width: nil, colour: false)
    #expect(wide[1].contains("a.very.long.name@some.department.example.com"))
  }

  @Test("names are cut in the middle, and numbers in them are in order") func names() {
    #expect(SafeText.shortened("abcdefgh", columns: 8) == "abcdefgh")
    #expect(SafeText.shortened("abcdefghi", columns: 8) == "abcd…ghi")
    #expect(SafeText.shortened("abc", columns: 2) == "a…")
    #expect(SafeText.width(SafeText.shortened("東京東京東京", columns: 8)) <= 8)
    let names = ["work10", "work9", "a", "work09", "work", "b2c", "b10"]
    #expect(names.sorted(by: NaturalOrder.isBefore) == ["a", "b2c", "b10", "work", "work9", "work09", "work10"])
  }

  @Test("users are named, and options and settings stay") func users() {
    let users = UserNames { $0 == 992 ? "svc3" : nil }
    #expect(users(992) == "svc3" && users(1) == "uid 1")
    #expect(users.named("uid 992 (uid 992), not uid 1") == "user svc3 (user svc3), not uid 1")
    for text in ["--uid 992", "uid = 992", "guid 992", "uid 99999999999", "uid ", ""] {
      #expect(users.named(text) == text)
    }
  }

  @Test("wide characters and colour keep the columns") func wideCharactersAndColourKeepTheColumns() {
    let table = TextTable(
      titles: ["A", "B"], shrinkable: [],
      rows: [.init(cells: [Cell("東京"), Cell("ok", .good)]), .init(cells: ["x", "y"])])
    #expect(table.lines(width: nil, colour: true) == ["A     B", "東京  \u{1B}[32mok\u{1B}[0m", "x     y"])
  }

  @Test("an account is shown in aligned fields") func anAccountIsShownInAlignedFields() {
    let fields = ShowCommand.fields(Self.account("work", .loginRequired, expires: -180, error: Self.refused), shell())
    #expect(
      fields.lines(colour: false).joined(separator: "\n") == """
        Account       work
        Provider      google
        State         login required
        E-mail        ada@example.com
        Subject       1
        Scopes        openid
        Token         generation 7
        Expires       2025-12-31 23:57:00 (3 min ago)
        Next refresh  2026-01-01 00:49:59 (in 49 min)
        Last refresh  2025-12-31 23:59:50 (10 s ago)
        Signed in     2025-12-31 22:00:00 (2 h ago)
        Last error    account a-rather-long-account-name needs a login: the provider ended the grant \\u{1B}[2Jand more (3 min ago)
        What to do    Sign in again with `grantctl login google a-rather-long-account-name`.
        """)
  }
}
