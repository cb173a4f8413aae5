# What `cmake --install` puts where, and the Debian package of it (`tools/package`).
# As a system's service has it: with /usr the settings are in /etc, not in /usr/etc. --prefix still goes elsewhere.
if(CMAKE_INSTALL_PREFIX_INITIALIZED_TO_DEFAULT)
  set(CMAKE_INSTALL_PREFIX /usr CACHE PATH "Where cmake --install puts it" FORCE)
endif()
include(GNUInstallDirs)

# The file of every setting, with the data where a service has it.
file(READ ${PROJECT_SOURCE_DIR}/config/tarrymq.toml settings)
string(REPLACE "data_dir = \"./data\"" "data_dir = \"/var/lib/tarrymq\"" settings "${settings}")
file(CONFIGURE OUTPUT packaging/tarrymq.toml CONTENT "${settings}" @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/packaging/systemd/tarrymq.service packaging/tarrymq.service @ONLY)

# Manual pages from --help, and completions from the commands themselves: not part of `all`, since help2man is not
# needed to build. What was made is installed.
find_program(TARRY_HELP2MAN help2man)
set(pages ${CMAKE_BINARY_DIR}/packaging)
add_custom_target(extras COMMAND ${CMAKE_COMMAND} -E make_directory ${pages})
function(tarry_page program about)
  if(TARRY_HELP2MAN)
    add_custom_command(TARGET extras POST_BUILD COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 ${TARRY_HELP2MAN} --no-info
      --name=${about} --version-string=${PROJECT_VERSION} --manual=TarryMQ --output=${pages}/${program}.1 $<TARGET_FILE:${program}> VERBATIM)
  endif()
  add_dependencies(extras ${program})
endfunction()
tarry_page(tarrymq "message broker for AMQP 0-9-1 with delayed retries")
tarry_page(tarrymqctl "operations on a TarryMQ broker")
tarry_page(tarrymqperf "load on an AMQP 0-9-1 broker")
tarry_page(tarrymq-dump "shows a TarryMQ data directory message by message")
foreach(shell bash zsh fish)
  add_custom_command(TARGET extras POST_BUILD
    COMMAND $<TARGET_FILE:tarrymqctl> completion ${shell} > ${pages}/completion.${shell})
endforeach()

install(TARGETS tarrymq tarrymqctl tarrymqperf tarrymq-dump RUNTIME)
install(FILES ${pages}/tarrymq.toml DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/tarrymq)
install(FILES ${pages}/tarrymq.service DESTINATION lib/systemd/system)
install(FILES packaging/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME tarrymq.conf)
install(FILES packaging/logrotate DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/logrotate.d RENAME tarrymq)
install(FILES README.md LIBRARIES.md config/grafana-dashboard.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Where the README's links look for them.
install(FILES config/LIMITS.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/config)
install(FILES src/COMING-FROM.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/src)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
# What is built in (LIBRARIES.md) asks for its own licence to be passed on (not Boost, in binaries).
foreach(library htm preact uplot)
  install(FILES src/http/pages/vendor/LICENSE.${library} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${library})
endforeach()
foreach(package nlohmann-json3-dev libtomlplusplus-dev libcli11-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${package} OPTIONAL)
endforeach()
foreach(program tarrymq tarrymqctl tarrymqperf tarrymq-dump)
  install(FILES ${pages}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
endforeach()
install(FILES ${pages}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tarrymqctl OPTIONAL)
install(FILES ${pages}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _tarrymqctl OPTIONAL)
install(FILES ${pages}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME tarrymqctl.fish OPTIONAL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tarrymq)
set(CPACK_PACKAGE_CONTACT "TarryMQ maintainers <tarrymq@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "message broker for AMQP 0-9-1 with delayed retries")
set(CPACK_PACKAGE_DESCRIPTION "A message that a consumer rejects comes back later, each time after a longer delay,
and after a set number of deliveries it goes to a dead-letter queue.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd, init-system-helpers")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postinst
  ${PROJECT_SOURCE_DIR}/packaging/debian/prerm ${PROJECT_SOURCE_DIR}/packaging/debian/postrm
  ${PROJECT_SOURCE_DIR}/packaging/debian/conffiles)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
