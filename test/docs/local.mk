# The commands of the documents.
extra_files += \
	test/docs/commands.txt \
	test/docs/docs.sh \
	test/docs/extract.py \
	test/docs/new_user.sh
