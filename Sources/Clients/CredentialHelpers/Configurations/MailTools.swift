extension Tool {
  static let mail = [msmtp, mbsync, neomutt, aerc]

  static let msmtp = Tool(name: "msmtp", need: .mailServer) { target in
    let lines = [
      "account \(target.account)", "host \(target.place?.host.description ?? "")", "port \(target.port(587))", "tls on",
      "tls_starttls \(target.port(587) == 465 ? "off" : "on")", "auth oauthbearer", "from \(target.user)",
      "user \(target.user)", "passwordeval \"\(target.tokenCommand) </dev/null\"",
    ]
    return ToolConfiguration(
      edits: [target.edit("msmtp", "$HOME/.msmtprc", lines, conflicts: [.line("account \(target.account)")])],
      notes: ["A server without OAUTHBEARER: write auth xoauth2. Use it: msmtp -a \(target.account)"])
  }

  static let mbsync = Tool(name: "mbsync", need: .mailServer) { target in
    let name = target.account
    let lines = [
      "IMAPAccount \(name)", "Host \(target.place?.host.description ?? "")", "Port \(target.port(993))",
      "SSLType \(target.port(993) == 143 ? "STARTTLS" : "IMAPS")", "User \(target.user)",
      "PassCmd \"\(target.tokenCommand)\"",
      "AuthMechs XOAUTH2", "", "IMAPStore \(name)-remote", "Account \(name)", "", "MaildirStore \(name)-local",
      "Path ~/Mail/\(name)/", "Inbox ~/Mail/\(name)/INBOX", "SubFolders Verbatim", "", "Channel \(name)",
      "Far :\(name)-remote:", "Near :\(name)-local:", "Patterns *", "Create Near", "SyncState *",
    ]
    return ToolConfiguration(
      edits: [target.edit("mbsync", "$HOME/.mbsyncrc", lines, conflicts: [.line("IMAPAccount \(name)")])],
      notes: [
        "mbsync needs a SASL module with XOAUTH2: libsasl2-modules-kdexoauth2, or another.",
        "It can hang when the server refuses a token: run it as timeout 300 mbsync \(name)",
      ])
  }

  static let neomutt = Tool(name: "neomutt", need: .mailServer) { target in
    let host = target.place?.host.description ?? ""
    let lines = [
      "set folder = \(ToolTarget.quoted("imaps://\(host):\(target.port(993))/"))", "set spoolfile = \"+INBOX\"",
      "set imap_user = \(ToolTarget.quoted(target.user))", "set imap_authenticators = \"oauthbearer:xoauth2\"",
      "set imap_oauth_refresh_command = \(ToolTarget.quoted(target.tokenCommand))",
    ]
    return ToolConfiguration(
      edits: [
        target.edit(
          "neomutt", "$CONFIG/neomutt/neomuttrc", lines, conflicts: [.start("set imap_oauth_refresh_command =")])
      ],
      notes: [
        "To send: set smtp_url, smtp_authenticators = \"oauthbearer:xoauth2\" and smtp_oauth_refresh_command in the same way."
      ])
  }

  static let aerc = Tool(name: "aerc", need: .mailServer) { target in
    let user = target.user.map { $0 == "@" ? "%40" : String($0) }.joined()
    let lines = [
      "[\(target.account)]",
      "source = imaps+oauthbearer://\(user)@\(target.place?.host.description ?? ""):\(target.port(993))",
      "source-cred-cmd = \(target.tokenCommand)", "from = <\(target.user)>",
    ]
    return ToolConfiguration(
      edits: [target.edit("aerc", "$CONFIG/aerc/accounts.conf", lines, conflicts: [.start("[\(target.account)]")])],
      notes: ["aerc asks once per start: start it again when the token of that start has ended."])
  }
}

extension ToolTarget {
  func port(_ standard: Int) -> Int { place?.port ?? standard }
}
